package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/openstack"
	"github.com/isthmus-cloud/isthmus/test/cloudsim"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/azure"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/gcp"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// world is a request in a simulated cloud.
type world struct {
	name    string
	args    []string
	env     []string
	request string
	// silent says that the answer needs no network.
	silent bool
	// conf writes the cloud.conf, with Keystone at an address or, if it is "", where it is.
	conf func(keystone string) (string, error)
}

const (
	lifetime  = time.Hour
	account   = "111122223333"
	namespace = "team"
	pod       = "app"
	subject   = "system:serviceaccount:" + namespace + ":" + pod
)

// ask is the kubelet's request.
func ask(image, token string, annotations map[string]string) (string, error) {
	request := map[string]any{"kind": "CredentialProviderRequest", "apiVersion": "credentialprovider.kubelet.k8s.io/v1", "image": image}
	if token != "" {
		request["serviceAccountToken"], request["serviceAccountAnnotations"] = token, annotations
	}
	data, err := json.Marshal(request)
	return string(data), err
}

// pair makes the worlds of one kind: as the node and as a service account.
func pair(kind, image, token string, annotations map[string]string, env []string) ([]world, error) {
	node, err := ask(image, "", nil)
	if err != nil {
		return nil, err
	}
	asPod, err := ask(image, token, annotations)
	if err != nil {
		return nil, err
	}
	return []world{
		{name: kind + ", node", args: []string{"--registries=" + kind}, env: env, request: node},
		{name: kind + ", serviceAccount", args: []string{"--registries=" + kind, "--identity=serviceAccount"}, env: env, request: asPod},
	}, nil
}

// worlds starts the simulators. done ends them.
func worlds(ctx context.Context, dir string) (all []world, done func(), err error) {
	var ends []func()
	done = func() {
		for _, end := range ends {
			end()
		}
	}
	for _, start := range []func(context.Context, string) ([]world, func(), error){startAWS, startAzure, startGCP, startOpenStack} {
		some, end, err := start(ctx, dir)
		if end != nil {
			ends = append(ends, end)
		}
		if err != nil {
			return nil, done, err
		}
		all = append(all, some...)
	}
	return all, done, nil
}

func startAWS(context.Context, string) ([]world, func(), error) {
	sim, err := aws.Start(aws.Options{})
	if err != nil {
		return nil, nil, err
	}
	actions := []string{"ecr:*", "sts:*"}
	sim.SetInstanceRole(sim.AddRole(aws.Principal{Account: account, Name: "node", Actions: actions}))
	role := sim.AddRole(aws.Principal{Account: account, Name: "pod", Actions: actions, Trust: aws.Trust{Subjects: []string{subject}}})
	token, err := sim.ServiceAccountToken(cloudsim.TokenClaims{Namespace: namespace, Name: pod, Audience: []string{aws.Audience}, Lifetime: lifetime})
	if err != nil {
		return nil, sim.Close, err
	}
	// The second annotation is the rivals'.
	all, err := pair("ecr", account+".dkr.ecr.eu-central-1.amazonaws.com/app", token, map[string]string{"isthmus-cloud.github.io/ecr-role-arn": role, "eks.amazonaws.com/ecr-role-arn": role}, sim.Env())
	if err != nil {
		return nil, sim.Close, err
	}
	// Static keys and an endpoint without TLS: ECR itself is asked, and first.
	keys := sim.AddUser(aws.Principal{Account: account, Name: "keys", Actions: actions})
	asked := all[0]
	asked.name = ecrWithKeys
	asked.env = []string{"AWS_ACCESS_KEY_ID=" + keys.AccessKeyID, "AWS_SECRET_ACCESS_KEY=" + keys.SecretAccessKey, "AWS_ENDPOINT_URL_ECR=" + sim.URL()}
	return append(all, asked), sim.Close, nil
}

func startAzure(context.Context, string) ([]world, func(), error) {
	const tenant = "aaaaaaaa-0000-4000-8000-000000000001"
	sim, err := azure.Start(azure.Options{})
	if err != nil {
		return nil, nil, err
	}
	node := sim.SetSystemIdentity(azure.Application{Tenant: tenant})
	app := sim.AddApplication(azure.Application{Tenant: tenant, Subjects: []string{subject}})
	sim.AddRegistry(azure.Registry{Host: "contoso.azurecr.io", Pull: []string{node.ClientID, app.ClientID}})
	token, err := sim.ServiceAccountToken(cloudsim.TokenClaims{Namespace: namespace, Name: pod, Audience: []string{"api://AzureADTokenExchange"}, Lifetime: lifetime})
	if err != nil {
		return nil, sim.Close, err
	}
	all, err := pair("acr", "contoso.azurecr.io/app", token, map[string]string{"isthmus-cloud.github.io/acr-client-id": app.ClientID, "isthmus-cloud.github.io/acr-tenant-id": tenant}, sim.Env())
	return all, sim.Close, err
}

func startGCP(_ context.Context, dir string) ([]world, func(), error) {
	const node = "node@project.iam.gserviceaccount.com"
	sim, err := gcp.Start(gcp.Options{})
	if err != nil {
		return nil, nil, err
	}
	pool := gcp.Provider{Name: "projects/123456/locations/global/workloadIdentityPools/nodes/providers/cluster", Subjects: []string{subject}}
	sim.AddAccount(node)
	audience := sim.AddProvider(pool)
	sim.AllowPull("project", gcp.Account(node))
	sim.AllowPull("project", pool.Principal(subject))
	sim.SetInstance(node, gcp.ScopeStorage)
	token, err := sim.ServiceAccountToken(cloudsim.TokenClaims{Namespace: namespace, Name: pod, Audience: []string{audience}, Lifetime: lifetime})
	if err != nil {
		return nil, sim.Close, err
	}
	all, err := pair("artifactregistry", "europe-docker.pkg.dev/project/repo/app", token, nil, sim.Env())
	if err != nil {
		return nil, sim.Close, err
	}
	options := filepath.Join(dir, "gcp.yaml")
	text := fmt.Sprintf("apiVersion: isthmus-cloud.github.io/v1\nkind: CredentialProviderOptions\nartifactregistry: {identity: serviceAccount, workloadIdentityProvider: %q}\n", pool.Name)
	all[1].args = []string{"--config=" + options}
	return all, sim.Close, os.WriteFile(options, []byte(text), 0o600)
}

func startOpenStack(ctx context.Context, dir string) ([]world, func(), error) {
	const audience = "https://keystone.example"
	sim, err := openstack.Start(openstack.Options{})
	if err != nil {
		return nil, nil, err
	}
	issuer, err := cloudsim.NewIssuer()
	if err != nil {
		return nil, sim.Close, err
	}
	sim.AddFederation(openstack.Federation{
		IdentityProvider: "cluster", Protocol: "openid", Issuer: issuer, Audience: audience,
		Mapping: map[string]map[string][]string{subject: {openstack.ProjectName: {"creator"}}},
	})
	token, err := issuer.ServiceAccountToken(cloudsim.TokenClaims{Namespace: namespace, Name: pod, Audience: []string{audience}, Lifetime: lifetime})
	if err != nil {
		return nil, sim.Close, err
	}
	if err := storeSecret(ctx, sim); err != nil {
		return nil, sim.Close, err
	}
	all, err := pair("openstack", "registry.example.com:5000/app", token, nil, nil)
	if err != nil {
		return nil, sim.Close, err
	}
	keppel, err := ask("keppel.example.com/account/app", "", nil)
	if err != nil {
		return nil, sim.Close, err
	}
	all = append(all, world{name: "openstack, node, Keppel", args: all[0].args, request: keppel, silent: true})
	for i := range all {
		all[i].conf = func(keystone string) (string, error) {
			url := sim.AuthURL()
			if keystone != "" {
				url = address.ReplaceAllString(url, keystone)
			}
			file := filepath.Join(dir, "cloud.conf")
			return file, os.WriteFile(file, []byte(strings.Replace(cloudConf, "AUTH-URL", url, 1)), 0o600)
		}
	}
	return all, sim.Close, nil
}

const cloudConf = `[Global]
auth-url = AUTH-URL
region = RegionOne
username = k8s
password = secret
tenant-name = k8s
user-domain-name = Default
tenant-domain-name = Default
identity-provider = cluster
[Registry "registry.example.com:5000"]
type = barbican
secret = registry
[Registry "keppel.example.com"]
type = keppel
`

// storeSecret keeps the registry's login in the simulator's Barbican.
func storeSecret(ctx context.Context, sim *openstack.Sim) error {
	session, err := auth.New(auth.Config{
		AuthURL: sim.AuthURL(), Username: openstack.UserName, Password: cloudauth.NewSecret(openstack.UserPassword), TenantName: openstack.ProjectName, DomainName: "Default",
	}, auth.Options{})
	if err != nil {
		return err
	}
	client, err := session.Service(ctx, "key-manager")
	if err != nil {
		return err
	}
	return secrets.Create(ctx, client, secrets.CreateOpts{Name: "registry", Payload: `{"auths":{"registry.example.com:5000":{"username":"u","password":"p"}}}`, PayloadContentType: "text/plain"}).Err
}
