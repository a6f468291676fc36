package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// A real API server says whether a node may have tokens, before and after what config --rbac prints is
// applied; and the command that check prints for an administrator asks the same.
func TestCheckAsksRealAPIServer(t *testing.T) {
	t.Parallel()
	plane := controlplane.Start(t)
	node, err := plane.UserConfig("system:node:n1", "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	n := newNode(t)
	kubeconfig := filepath.Join(n.dir, "kubelet.conf")
	if err := controlplane.WriteKubeconfig(kubeconfig, node); err != nil {
		t.Fatal(err)
	}
	file := n.entries(t, entry(name, `public.ecr.aws`, ecrPodArgs, awsTokens))
	if got := n.check(t, nil, file, "--kubeconfig="+kubeconfig); got.code != 1 || !strings.Contains(got.stdout, "the kubelet may not have tokens for sts.amazonaws.com") {
		t.Errorf("without RBAC: exit %d:\n%s", got.code, got.stdout)
	}
	rbac := execute(t, "", "config", "--registries=ecr", "--identity=serviceAccount", "--rbac")
	if err := plane.Apply(t.Context(), []byte(rbac.stdout)); err != nil {
		t.Fatal(err)
	}
	eventually.NoError(t, func() error { // the authorizer sees it after a moment
		if got := n.check(t, nil, file, "--kubeconfig="+kubeconfig); got.code != 0 {
			return fmt.Errorf("with RBAC: exit %d:\n%s", got.code, got.stdout)
		}
		return nil
	})
	_, command, _ := strings.Cut(n.check(t, nil, file).stdout, "or ask: echo '")
	review, _, _ := strings.Cut(command, "'")
	if got, err := plane.Kubectl(t)(t.Context(), review, "create", "-o", "jsonpath={.status.allowed}", "-f", "-"); err != nil || got != "true" {
		t.Errorf("the printed command: %q, %v", got, err)
	}
}
