"""ML2 mechanism driver that binds every port on any host at once: no agent is there."""
from neutron.plugins.ml2.drivers.ovn.mech_driver import mech_driver
from neutron_lib.api.definitions import portbindings
from neutron_lib import constants
from neutron_lib.plugins.ml2 import api


class BindAllMechanismDriver(api.MechanismDriver):
    def initialize(self):
        # No ovn-controller brings logical ports up, so OVN must not set bound ports DOWN.
        mech_driver.OVNMechanismDriver.set_port_status_down = (
            lambda self, port_id: None)

    @property
    def connectivity(self):
        return portbindings.CONNECTIVITY_L2

    def bind_port(self, context):
        segment = context.segments_to_bind[0]
        context.set_binding(segment[api.ID], portbindings.VIF_TYPE_OVS,
                            {portbindings.CAP_PORT_FILTER: True,
                             portbindings.VIF_DETAILS_CONNECTIVITY:
                                 portbindings.CONNECTIVITY_L2},
                            status=constants.PORT_STATUS_ACTIVE)
