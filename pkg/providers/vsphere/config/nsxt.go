package config

import (
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	"github.com/isthmus-cloud/isthmus/pkg/gcfg"
)

// Class is how load balancers of a class get their addresses.
type Class struct {
	IPPoolName        string `gcfg:"ip-pool-name" yaml:"ipPoolName"`
	IPPoolID          string `gcfg:"ip-pool-id" yaml:"ipPoolId"`
	TCPAppProfileName string `gcfg:"tcp-app-profile-name" yaml:"tcpAppProfileName"`
	TCPAppProfilePath string `gcfg:"tcp-app-profile-path" yaml:"tcpAppProfilePath"`
	UDPAppProfileName string `gcfg:"udp-app-profile-name" yaml:"udpAppProfileName"`
	UDPAppProfilePath string `gcfg:"udp-app-profile-path" yaml:"udpAppProfilePath"`
}

// LoadBalancer turns load balancers of NSX-T on.
type LoadBalancer struct {
	Class
	Size             string     `gcfg:"size" yaml:"size"`
	LBServiceID      string     `gcfg:"lb-service-id" yaml:"lbServiceId"`
	Tier1GatewayPath string     `gcfg:"tier1-gateway-path" yaml:"tier1GatewayPath"`
	SnatDisabled     bool       `gcfg:"snat-disabled" yaml:"snatDisabled"`
	Tags             gcfg.Pairs `gcfg:"tags" yaml:"tags"`
}

// on reports whether the existing manager would serve Services.
func (l *LoadBalancer) on() bool {
	return l.Size != "" || l.LBServiceID != "" || l.IPPoolID != "" || l.IPPoolName != "" || l.Tier1GatewayPath != ""
}

// NSXT is how NSX-T is reached.
type NSXT struct {
	User               string           `gcfg:"user" yaml:"user"`
	Password           cloudauth.Secret `gcfg:"password" yaml:"password"`
	Host               string           `gcfg:"host" yaml:"host"`
	InsecureFlag       bool             `gcfg:"insecure-flag" yaml:"insecureFlag"`
	RemoteAuth         bool             `gcfg:"remote-auth" yaml:"remoteAuth"`
	SecretName         string           `gcfg:"secret-name" yaml:"secretName"`
	SecretNamespace    string           `gcfg:"secret-namespace" yaml:"secretNamespace"`
	VMCAccessToken     cloudauth.Secret `gcfg:"vmc-access-token" yaml:"vmcAccessToken"`
	VMCAuthHost        string           `gcfg:"vmc-auth-host" yaml:"vmcAuthHost"`
	ClientAuthCertFile string           `gcfg:"client-auth-cert-file" yaml:"clientAuthCertFile"`
	ClientAuthKeyFile  string           `gcfg:"client-auth-key-file" yaml:"clientAuthKeyFile"`
	CAFile             string           `gcfg:"ca-file" yaml:"caFile"`
}

// Route turns routes of NSX-T on.
type Route struct {
	RouterPath string `gcfg:"router-path" yaml:"routerPath"`
}
