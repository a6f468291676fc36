package check

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/credentialprovider/kubelet"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// tokensSince is the minor version whose kubelets have tokenAttributes turned on and read directories.
const tokensSince = 34

// version finds what the kubelet that runs here is too old for.
func (c *Check) version(ctx context.Context, entries []kubelet.Entry) {
	if c.kubelet.pid == 0 {
		return
	}
	minor := c.kubelet.minorVersion(ctx)
	if minor == 0 || minor >= tokensSince {
		return
	}
	if info, err := os.Stat(c.options.KubeletConfig); err == nil && info.IsDir() {
		c.add(kubelet.Finding{Level: kubelet.Problem, File: c.options.KubeletConfig, Cause: fmt.Sprintf("the kubelet that runs here is v1.%d and reads one file, no directory: it does not start", minor), Next: fmt.Sprintf("name a file, or update it to v1.%d", tokensSince)})
	}
	for _, e := range entries {
		if e.TokenAttributes != nil {
			c.add(kubelet.Finding{Level: kubelet.Problem, File: e.File, Entry: e.Name, Field: "tokenAttributes", Cause: fmt.Sprintf("the kubelet that runs here is v1.%d, which does not take them by default: it does not start", minor), Next: fmt.Sprintf("update it to v1.%d, or with v1.33 turn the feature gate KubeletServiceAccountTokenForCredentialProviders on", tokensSince)})
		}
	}
}

// access finds out whether the kubelet may have tokens for the audiences of the entries.
func (c *Check) access(ctx context.Context, entries []kubelet.Entry) {
	asked := map[string]bool{}
	for _, e := range entries {
		if e.TokenAttributes == nil || e.TokenAttributes.Audience == "" || asked[e.TokenAttributes.Audience] {
			continue
		}
		audience := e.TokenAttributes.Audience
		asked[audience] = true
		f := kubelet.Finding{File: e.File, Entry: e.Name, Field: "tokenAttributes.serviceAccountTokenAudience", Level: kubelet.Unchecked}
		grant := fmt.Sprintf("%s config --rbac prints the ClusterRole and its binding", credentialprovider.Program)
		if c.options.Kubeconfig == "" {
			f.Cause = fmt.Sprintf("whether the nodes may have tokens for %s was not asked", audience)
			f.Next = "give --kubeconfig, or ask: " + reviewCommand(audience)
			c.add(f)
			continue
		}
		namespace, account := credentialprovider.TokenSubject(c.token)
		allowed, err := kubelet.MayRequestTokens(ctx, c.options.Kubeconfig, audience, namespace, account)
		switch {
		case err != nil:
			f.Cause = fmt.Sprintf("whether the nodes may have tokens for %s could not be asked: %s", audience, cloudauth.Excerpt(err.Error(), 300))
			f.Next = "correct --kubeconfig, or ask: " + reviewCommand(audience)
			c.add(f)
		case !allowed:
			f.Level = kubelet.Problem
			f.Cause = fmt.Sprintf("the kubelet may not have tokens for %s (RBAC: verb %s): it does not run the provider", audience, kubelet.TokenVerb)
			f.Next = grant
			c.add(f)
		default:
			c.say("the kubelet may have tokens for %s", audience)
		}
	}
}

// reviewCommand asks the API server, as an administrator, whether nodes may have tokens.
func reviewCommand(audience string) string {
	review, err := json.Marshal(map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
		"spec": map[string]any{"user": "system:node:any", "groups": []string{kubelet.NodesGroup}, "resourceAttributes": map[string]string{"verb": kubelet.TokenVerb, "resource": audience}},
	})
	if err != nil {
		return err.Error()
	}
	return "echo '" + string(review) + "' | kubectl create -o jsonpath='{.status.allowed}' -f -"
}
