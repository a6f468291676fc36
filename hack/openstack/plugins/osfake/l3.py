"""OVN's router plugin, but an associated floating IP is ACTIVE at once: no chassis is
there to say so."""
from neutron.services.ovn_l3 import plugin
from neutron_lib import constants


class L3(plugin.OVNL3RouterPlugin):
    # Its code is there (extraroute_db), only the alias is not announced.
    _supported_extension_aliases = (
        list(plugin.OVNL3RouterPlugin._supported_extension_aliases) +
        ['extraroute-atomic'])

    def _settle(self, context, fip):
        want = (constants.FLOATINGIP_STATUS_ACTIVE if fip.get('port_id')
                else constants.FLOATINGIP_STATUS_DOWN)
        if fip.get('status') != want:
            self.update_floatingip_status(context.elevated(), fip['id'], want)
            fip['status'] = want
        return fip

    def create_floatingip(self, context, floatingip):
        return self._settle(context, super().create_floatingip(context, floatingip))

    def update_floatingip(self, context, id, floatingip):
        return self._settle(context, super().update_floatingip(context, id, floatingip))
