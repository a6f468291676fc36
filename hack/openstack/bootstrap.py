#!/usr/bin/python3
"""bootstrap.py catalog | project: what a new cloud holds; what is there already stays.

catalog: endpoints, roles, the services' users, the project and user k8s.
project: availability zones, flavors, an image, networks, three servers and an
application credential of the project k8s."""
import json
import os
import subprocess
import sys
import time

import openstack

RUN = os.environ['ISTHMUS_RUN']
BIN = os.environ['ISTHMUS_BIN']
PASSWORD = os.environ['ISTHMUS_PASSWORD']
COMPUTES = os.environ['ISTHMUS_COMPUTES'].split()
AUTH_URL = 'http://127.0.0.1:5000/v3'
PROJECT = 'k8s'
MEMBER_ROLES = ('member', 'load-balancer_member', 'creator')
SERVICES = (  # name, type, URL
    ('keystone', 'identity', None),  # keystone-manage bootstrap makes its endpoints
    ('nova', 'compute', 'http://127.0.0.1:8774/v2.1'),
    ('placement', 'placement', 'http://127.0.0.1:8778'),
    ('glance', 'image', 'http://127.0.0.1:9292'),
    ('neutron', 'network', 'http://127.0.0.1:9696'),
    ('octavia', 'load-balancer', 'http://127.0.0.1:9876'),
    ('cinderv3', 'volumev3', 'http://127.0.0.1:8776/v3/%(project_id)s'),
    ('cinder', 'block-storage', 'http://127.0.0.1:8776/v3/%(project_id)s'),
    ('barbican', 'key-manager', 'http://127.0.0.1:9311'),
)


def connect(user, project):
    return openstack.connect(
        auth_url=AUTH_URL, username=user, password=PASSWORD, project_name=project,
        user_domain_name='Default', project_domain_name='Default', region_name='RegionOne',
        load_yaml_config=False, load_envvars=False)


def wait(what, done, seconds=120):
    """Calls done until its answer is true; an exception ends the wait."""
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            sys.exit('openstack: %s: not after %d s' % (what, seconds))
        time.sleep(.25)


def catalog():
    cloud = connect('admin', 'admin')
    identity = cloud.identity
    services = {s.type: s for s in identity.services()}
    endpoints = {(e.service_id, e.interface) for e in identity.endpoints()}
    for name, kind, url in SERVICES:
        service = services.get(kind) or identity.create_service(name=name, type=kind)
        for interface in ('public', 'internal', 'admin') if url else ():
            if (service.id, interface) not in endpoints:
                identity.create_endpoint(service_id=service.id, interface=interface,
                                         url=url, region_id='RegionOne')
    projects = {p.name: p for p in identity.projects()}
    for name in ('service', PROJECT):
        if name not in projects:
            projects[name] = identity.create_project(name=name, domain_id='default')
    roles = {r.name: r for r in identity.roles()}
    for name in MEMBER_ROLES + ('service', 'load-balancer_admin', 'reader'):
        if name not in roles:
            roles[name] = identity.create_role(name=name)
    users = {u.name: u for u in identity.users()}
    granted = [(n, 'service', ('admin', 'service')) for n in
               ('nova', 'placement', 'glance', 'neutron', 'octavia', 'cinder', 'barbican')]
    granted += [(PROJECT, PROJECT, MEMBER_ROLES), ('admin', 'admin', ('load-balancer_admin',))]
    for name, project, names in granted:
        if name not in users:
            users[name] = identity.create_user(name=name, password=PASSWORD, domain_id='default',
                                               default_project_id=projects[project].id)
        for role in names:
            identity.assign_project_role_to_user(projects[project], users[name], roles[role])


def compute_hosts(admin):
    """One host in each availability zone, known to the cell."""
    wait('nova-compute in every zone is up', lambda: sum(
        s.state == 'up' for s in admin.compute.services(binary='nova-compute')) >= len(COMPUTES))
    if len(list(admin.compute.hypervisors())) < len(COMPUTES):
        with open(RUN + '/log/discover-hosts.out', 'w') as log:
            subprocess.run([BIN + '/nova-manage', '--config-file', RUN + '/etc/nova/nova.conf',
                            'cell_v2', 'discover_hosts'], stdout=log, stderr=log, check=True)
        wait('Nova lists every hypervisor',
             lambda: len(list(admin.compute.hypervisors())) >= len(COMPUTES))
    aggregates = {a.name for a in admin.compute.aggregates()}
    for zone in COMPUTES:
        if zone not in aggregates:
            aggregate = admin.compute.create_aggregate(name=zone, availability_zone=zone)
            admin.compute.add_host_to_aggregate(aggregate.id, 'compute-' + zone)


def offers(admin):
    """What an operator offers: flavors, an image, the external network."""
    for name, vcpus, ram, disk in (('m1.tiny', 1, 64, 1), ('k8s.small', 2, 4096, 20)):
        if not admin.compute.find_flavor(name):
            admin.compute.create_flavor(name=name, vcpus=vcpus, ram=ram, disk=disk)
    if not admin.image.find_image('dummy'):
        admin.image.create_image(name='dummy', data=b'x' * 1024, disk_format='raw',
                                 container_format='bare', visibility='public', min_disk=0,
                                 min_ram=0, validate_checksum=False)
    net = admin.network.find_network('public') or admin.network.create_network(
        name='public', is_router_external=True, provider_network_type='flat',
        provider_physical_network='physnet1')
    if not admin.network.find_subnet('public-subnet'):
        admin.network.create_subnet(name='public-subnet', network_id=net.id, ip_version=4,
                                    cidr='172.24.0.0/16', enable_dhcp=False,
                                    gateway_ip='172.24.0.1')
    return net


def member_network(member, external):
    net = member.network.find_network('k8s-net') or member.network.create_network(name='k8s-net')
    subnet = member.network.find_subnet('k8s-subnet') or member.network.create_subnet(
        name='k8s-subnet', network_id=net.id, ip_version=4, cidr='10.0.0.0/16')
    if not member.network.find_router('k8s-router'):
        router = member.network.create_router(
            name='k8s-router', external_gateway_info={'network_id': external.id})
        member.network.add_interface_to_router(router, subnet_id=subnet.id)
    return net


def application_credential(member):
    """Written once: Keystone shows the secret of a credential only when it is made."""
    file = RUN + '/appcred.json'
    if os.path.exists(file):
        return
    user = member.current_user_id
    for old in member.identity.application_credentials(user=user):
        if old.name == 'ccm':  # of a start that ended before the file was written
            member.identity.delete_application_credential(user, old)
    made = member.identity.create_application_credential(user=user, name='ccm', unrestricted=False)
    with open(file + '.new', 'w') as out:
        json.dump({'id': made.id, 'secret': made.secret, 'auth_url': AUTH_URL}, out)
    os.rename(file + '.new', file)


def servers(admin, member, net):
    flavor = admin.compute.find_flavor('k8s.small')
    image = admin.image.find_image('dummy')
    names = ['k8s-node-%d' % i for i in range(3)]
    for i, name in enumerate(names):
        if not member.compute.find_server(name):
            port = member.network.create_port(network_id=net.id, name=name)
            member.compute.create_server(
                name=name, flavor_id=flavor.id, image_id=image.id, networks=[{'port': port.id}],
                availability_zone=COMPUTES[i % len(COMPUTES)])

    def settled():
        found = {s.name: s.status for s in member.compute.servers(name='^k8s-node-')}
        if 'ERROR' in found.values():
            sys.exit('openstack: a server failed to boot: %s' % found)
        return all(found.get(n) not in (None, 'BUILD') for n in names)
    wait('the servers have booted', settled)


def project():
    admin, member = connect('admin', 'admin'), connect(PROJECT, PROJECT)
    external = offers(admin)
    net = member_network(member, external)
    application_credential(member)
    compute_hosts(admin)
    servers(admin, member, net)
    wait('cinder-volume is up', lambda: sum(
        s['state'] == 'up' and s['binary'] == 'cinder-volume'
        for s in admin.block_storage.get('/os-services').json()['services']) >= 2)


if __name__ == '__main__':
    {'catalog': catalog, 'project': project}[sys.argv[1]]()
