// Package azure is a simulated Azure at the wire: the instance metadata service's managed identities, the token
// endpoints of Entra ID, and Azure Container Registry, in the public cloud and the sovereign ones, for the
// real SDK to talk to. It answers in Azure's own formats, errors included.
//
// # Use
//
//	sim, err := azure.Start(azure.Options{})
//	defer sim.Close()
//	sim.AddRegistry(azure.Registry{Host: "contoso.azurecr.io", Pull: []string{app.ClientID}})
//
// A client reaches it with Sim.Env: it takes the simulator for its HTTPS proxy and trusts its CA, so that it
// speaks TLS to Azure's real names, which shows which of them it chose; a name that Azure does not have is
// refused. The metadata service is spoken to directly (AZURE_POD_IDENTITY_AUTHORITY_HOST), and through the proxy
// not at all.
//
// # How it is built
//
//   - cloudsim.Front ends the TLS connections, logs requests and applies faults; serve.go finds the handler:
//     "func(*call) (*reply, error)", which runs with s.mu HELD.
//   - identities.go has tenants, applications, managed identities and what they prove themselves with.
//   - metadata.go, entra.go and registry.go are the services; assertion.go verifies signatures.
package azure
