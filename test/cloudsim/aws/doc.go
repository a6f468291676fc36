// Package aws is a simulated AWS at the wire: STS, ECR, ECR Public, EC2, Elastic Load Balancing (classic and v2),
// the instance metadata service (IMDSv2 only) and the endpoint for container credentials (ECS, EKS Pod Identity), for the real
// SDK to talk to. It answers in AWS' own formats, errors included.
//
// # Use
//
//	sim, err := aws.Start(aws.Options{})
//	defer sim.Close()
//	keys := sim.AddUser(aws.Principal{Account: "111122223333", Name: "node", Actions: []string{"ecr:*"}})
//
//	sim.EC2("111122223333", "eu-central-1").AddInstance(ec2.Instance{Tags: map[string]string{"Name": "node-1"}})
//
// A client reaches it in two ways. With Sim.Env it takes the simulator for its HTTPS proxy and
// trusts its CA: it then speaks TLS to AWS' real names, which shows which of them it chose, and a name
// that AWS does not have is refused. With AWS_ENDPOINT_URL=Sim.URL() it speaks to it directly.
//
// # How it is built
//
//   - cloudsim.Front ends the TLS connections to AWS' names, logs requests and applies faults; endpoints.go knows the names.
//   - serve.go finds the handler: "func(*call) (*reply, error)",
//     which runs with s.mu HELD. Errors are *apiError; the service's protocol gives them their shape (errors.go).
//   - sigv4.go verifies signatures with code of its own, not the SDK's.
//   - iam.go has users, roles, their policies and temporary credentials; the OIDC issuer is cloudsim.Issuer.
//   - sts.go, ecr.go, metadata.go are the services that share this state.
//   - queries.go admits calls to services with state of their own, by account and region: package ec2 has EC2's, package
//     ec2/wire speaks its API; elb and elbv2 are alike. Package query has what query protocols share, and package store
//     what states are built of. Those run without s.mu.
package aws
