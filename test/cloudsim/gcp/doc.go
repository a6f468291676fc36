// Package gcp is a simulated Google Cloud at the wire: the metadata server of an instance, OAuth's token
// endpoint (keys of service accounts, refresh tokens), STS (workload identity federation), IAM's
// generateAccessToken, and the registries gcr.io and pkg.dev, for the real libraries to talk to. It answers
// in Google's own formats, errors included.
//
// # Use
//
//	sim, err := gcp.Start(gcp.Options{})
//	defer sim.Close()
//	sim.AddAccount("node@project.iam.gserviceaccount.com")
//	sim.AllowPull("project", gcp.Account("node@project.iam.gserviceaccount.com"))
//	sim.SetInstance("node@project.iam.gserviceaccount.com", gcp.ScopeStorage)
//
// With Sim.Env a client takes the simulator for its HTTPS proxy and trusts its CA: it then speaks TLS to
// Google's real names, and a name that Google does not have is refused. The metadata server is spoken to
// directly, as GCE_METADATA_HOST.
//
// # How it is built
//
//   - cloudsim.Front ends the TLS connections to Google's names, logs requests and applies faults.
//   - serve.go knows the names and finds the handler: "func(*call) (*reply, error)", which runs with s.mu HELD.
//     Errors are *apiError; the service gives them their shape (errors.go).
//   - iam.go has accounts, keys, users, who may do what, and access tokens; the cluster's OIDC issuer is cloudsim.Issuer.
//   - oauth.go, sts.go, iamcredentials.go, metadata.go and registry.go are the services.
package gcp
