package check

import (
	"fmt"
	"slices"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/credentialprovider/kubelet"
)

// tokens compares tokenAttributes with the identities of the kinds that the entry leads to.
func (o *ourEntry) tokens() {
	t := o.TokenAttributes
	for _, k := range o.kinds {
		pod := k.identity == credentialprovider.ServiceAccountIdentity
		switch {
		case !o.leadsTo(k):
			continue
		case pod && t == nil:
			o.add(kubelet.Problem, "tokenAttributes", "they are not there, but "+k.Name+" is configured for the identity of service accounts: every image of it is refused", "add them ("+credentialprovider.Program+" config --identity=serviceAccount prints them), or set the identity node")
		case !pod && t != nil:
			o.add(kubelet.Problem, "tokenAttributes", k.Name+" is configured for the node's identity and takes no tokens: every image of it is refused", "remove them, or set the identity serviceAccount")
		case pod:
			o.tokensOf(k, *t)
		}
	}
}

func (o *ourEntry) tokensOf(k servedKind, t kubelet.TokenAttributes) {
	if k.Audience() != "" && t.Audience != "" && t.Audience != k.Audience() {
		o.add(kubelet.Warning, "tokenAttributes.serviceAccountTokenAudience", fmt.Sprintf("it is %s, and %s usually wants %s", t.Audience, k.Name, k.Audience()), "make sure that the cloud takes it")
	}
	if t.Require != nil && !*t.Require {
		o.add(kubelet.Warning, "tokenAttributes.requireServiceAccount", "pods without a service account (static pods) have no token, and "+k.Name+" refuses them", "serve their images by another entry with the node's identity")
	}
	listed := slices.Concat(t.RequiredAnnotations, t.OptionalAnnotations)
	if len(k.Annotations()) > 0 && !slices.ContainsFunc(k.Annotations(), func(a string) bool { return slices.Contains(listed, a) }) {
		o.add(kubelet.Warning, "tokenAttributes.optionalServiceAccountAnnotationKeys", "none of the annotations that "+k.Name+" reads is listed, so that it never sees one", "list "+k.Annotations()[0])
	}
	for _, key := range t.RequiredAnnotations {
		o.add(kubelet.Warning, "tokenAttributes.requiredServiceAccountAnnotationKeys", "for pods whose service account has no "+key+" the kubelet does not run the program and says nothing", "list it under optionalServiceAccountAnnotationKeys to get an error instead")
	}
}

// loginVariables are variables of the node's login, which mean nothing for the identity of service
// accounts, and podVariables the other way around, by kind.
func loginVariables() map[string][]string {
	return map[string][]string{
		"acr":              {"AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_CLIENT_CERTIFICATE_PATH", "AZURE_CLIENT_CERTIFICATE_PASSWORD", "AZURE_FEDERATED_TOKEN_FILE"},
		"artifactregistry": {"GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_CONFIG", "GCE_METADATA_HOST"},
		"ecr":              {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE"},
		"openstack":        {"OS_USERNAME", "OS_PASSWORD", "OS_TOKEN", "OS_APPLICATION_CREDENTIAL_ID", "OS_APPLICATION_CREDENTIAL_SECRET"},
	}
}

func podVariables() map[string][]string { return map[string][]string{"ecr": {"AWS_ECR_ROLE_ARN"}} }

// environment finds variables that contradict the identity.
func (o *ourEntry) environment() {
	set := map[string]bool{}
	for _, v := range o.Env {
		set[v.Name] = v.Value != ""
	}
	if set["AWS_ACCESS_KEY_ID"] != set["AWS_SECRET_ACCESS_KEY"] {
		o.add(kubelet.Problem, "env", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY belong together, and one is not set", "set both or none")
	}
	for _, k := range o.kinds {
		unused, what := loginVariables()[k.Name], "of service accounts"
		if k.identity == credentialprovider.NodeIdentity {
			unused, what = podVariables()[k.Name], "node"
		}
		for _, v := range unused {
			if set[v] {
				o.add(kubelet.Warning, "env "+v, "it means nothing to "+k.Name+" with the identity "+what, "remove it")
			}
		}
	}
}
