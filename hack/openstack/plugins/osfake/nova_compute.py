"""nova-compute with Nova's fake hypervisor, which here remembers its servers over a
restart (the stock one forgets them, and then refuses to stop or start them).

Run as `python3 -m osfake.nova_compute`, with the arguments of nova-compute."""
from nova.cmd import compute  # first: it makes the standard library cooperative
from nova.compute import power_state
from nova import context
from nova import objects
from nova.virt import fake

_init_host = fake.FakeDriver.init_host


def init_host(self, host):
    _init_host(self, host)
    for instance in objects.InstanceList.get_by_host(
            context.get_admin_context(), host, expected_attrs=['flavor']):
        state = (power_state.SHUTDOWN if instance.vm_state == 'stopped'
                 else power_state.RUNNING)
        flavor = instance.flavor
        self.resources.claim(vcpus=flavor.vcpus, mem=flavor.memory_mb,
                             disk=flavor.root_gb)
        self.instances[instance.uuid] = fake.FakeInstance(
            instance.name, state, instance.uuid)


if __name__ == '__main__':
    fake.FakeDriver.init_host = init_host
    compute.main()
