package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/test/controlplane"
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
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond) // until the authorizer has seen it
	defer tick.Stop()
	for got := n.check(t, nil, file, "--kubeconfig="+kubeconfig); got.code != 0; got = n.check(t, nil, file, "--kubeconfig="+kubeconfig) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("with RBAC: exit %d:\n%s", got.code, got.stdout)
		}
	}
	_, command, _ := strings.Cut(n.check(t, nil, file).stdout, "or ask: echo '")
	review, _, _ := strings.Cut(command, "'")
	if got, err := plane.Kubectl(t)(t.Context(), review, "create", "-o", "jsonpath={.status.allowed}", "-f", "-"); err != nil || got != "true" {
		t.Errorf("the printed command: %q, %v", got, err)
	}
}
