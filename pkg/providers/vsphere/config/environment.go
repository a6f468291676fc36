package config

import "strings"

// environment takes over what the existing manager takes from variables. It applies those of vCenters when the file has been
// checked, so that they reach none of them; here they stand where neither a vCenter nor [Global] has a value.
func (k *checker) environment(c *Config, getenv func(string) string) {
	for name, at := range map[string]*string{ // these count before the file
		"VSPHERE_LABEL_ZONE": &c.Labels.Zone, "VSPHERE_LABEL_REGION": &c.Labels.Region,
		"VSPHERE_NODES_INTERNAL_VM_NETWORK_NAME": &c.Nodes.InternalNetwork, "VSPHERE_NODES_EXTERNAL_VM_NETWORK_NAME": &c.Nodes.ExternalNetwork,
		"VSPHERE_SECRET_NAME": &c.Global.SecretName, "VSPHERE_SECRET_NAMESPACE": &c.Global.SecretNamespace,
		"VSPHERE_SECRETS_DIRECTORY": &c.Global.SecretsDirectory,
	} {
		if v := getenv(name); v != "" {
			*at = v
		}
	}
	for name, at := range map[string]*string{
		"VSPHERE_VCENTER": &c.Global.Server, "VSPHERE_VCENTER_PORT": &c.Global.Port, "VSPHERE_USER": &c.Global.User,
		"VSPHERE_CAFILE": &c.Global.CAFile, "VSPHERE_THUMBPRINT": &c.Global.Thumbprint,
	} {
		if v := getenv(name); v != "" && *at == "" {
			*at = v
		}
	}
	if c.Global.KeepNodes = getenv("SKIP_NODE_DELETION") != ""; c.Global.KeepNodes {
		k.warn("SKIP_NODE_DELETION is set: Nodes of machines that are gone stay; remove it, as a machine that is in doubt loses no Node without it")
	}
	if v := getenv("VSPHERE_PASSWORD"); c.Global.Password.IsEmpty() {
		_ = c.Global.Password.UnmarshalText([]byte(v)) // never fails
	}
	if v := getenv("VSPHERE_DATACENTER"); len(c.Global.Datacenters) == 0 {
		_ = c.Global.Datacenters.UnmarshalText([]byte(v)) // never fails
	}
	c.Global.Insecure = c.Global.Insecure || strings.EqualFold(getenv("VSPHERE_INSECURE"), "true") || getenv("VSPHERE_INSECURE") == "1"
	for name, at := range map[string]*Subnets{
		"VSPHERE_NODES_INTERNAL_NETWORK_SUBNET_CIDR": &c.Nodes.Internal, "VSPHERE_NODES_EXTERNAL_NETWORK_SUBNET_CIDR": &c.Nodes.External,
	} {
		if v := getenv(name); v != "" {
			if err := at.UnmarshalText([]byte(v)); err != nil {
				k.fail("%s: %v", name, err)
			}
		}
	}
}
