package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/manifests"
	"github.com/isthmus-cloud/isthmus/pkg/cli/access"
	"github.com/isthmus-cloud/isthmus/pkg/cli/output"
)

// The minor versions of Kubernetes 1 that are supported; see docs/releases.md.
const (
	oldestServer = 30
	newestServer = 38
	// kubeletsBehind is how many minor versions a kubelet may be older than its API server, by Kubernetes' version skew policy.
	kubeletsBehind = 3
)

func checkVersions(ctx context.Context, p *patient) ([]output.Finding, error) {
	found, err := p.skew(ctx)
	own, problem := p.ownVersions(ctx)
	return append(found, own...), errors.Join(err, problem)
}

// skew looks at the versions of the API server and of the kubelets.
func (p *patient) skew(ctx context.Context) (found []output.Finding, err error) {
	v, err := p.client.Discovery().ServerVersionWithContext(ctx)
	if err != nil {
		return nil, access.Failed(ctx, p.client, "read the API server's version", err)
	}
	server, ok := minor(v.GitVersion)
	if !ok {
		return nil, fmt.Errorf("the API server's version %.40q is not one of Kubernetes", v.GitVersion)
	}
	if server < oldestServer || server > newestServer {
		found = append(found, output.Finding{Severity: output.Warning, Object: "API server", Message: fmt.Sprintf("version %s; 1.%d to 1.%d are supported", v.GitVersion, oldestServer, newestServer),
			Next: "use the release of Isthmus that supports it"})
	}
	for i := range p.nodes {
		n := &p.nodes[i]
		kubelet, ok := minor(n.Status.NodeInfo.KubeletVersion)
		if ok && (kubelet > server || kubelet < server-kubeletsBehind) {
			found = append(found, output.Finding{Severity: output.Warning, Object: "node/" + n.Name,
				Message: fmt.Sprintf("its kubelet is %s, the API server %s: a kubelet may not be newer, nor more than %d minor versions older", n.Status.NodeInfo.KubeletVersion, v.GitVersion, kubeletsBehind),
				Next:    "upgrade the one that is older; see https://kubernetes.io/releases/version-skew-policy/"})
		}
	}
	if lacks, ok := p.lacks[theNodes]; ok {
		lacks.Object = "kubelets"
		found = append(found, lacks)
	}
	return found, nil
}

// minor is the minor version of v1.x.
func minor(version string) (int, bool) {
	rest, ok := strings.CutPrefix(version, "v1.")
	if !ok {
		return 0, false
	}
	n, _, _ := strings.Cut(rest, ".")
	m, err := strconv.Atoi(n)
	return m, err == nil
}

// A label and the container of the controller manager's pods, as the manifests and the chart have them.
const (
	labelVersion   = "app.kubernetes.io/version"
	ownContainer   = "cloud-controller-manager"
	mostOwnPods    = 1000
	nextOfVersions = "upgrade the one that is older: the guide Upgrade says in which order"
)

// ownVersions compares the versions of the controller manager's pods, by their images' tags, with the chart's and with this program's.
func (p *patient) ownVersions(ctx context.Context) (found []output.Finding, err error) {
	pods, err := p.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: manifests.Pods, Limit: mostOwnPods})
	if err != nil {
		return nil, access.Failed(ctx, p.client, "list the controller manager's pods", err)
	}
	running := map[string]string{} // a pod by its version
	for i := range pods.Items {
		pod := &pods.Items[i]
		for _, c := range pod.Spec.Containers {
			version := tag(c.Image)
			if c.Name != ownContainer || version == "" {
				continue
			}
			running[version] = pod.Namespace + "/" + pod.Name
			if chart := pod.Labels[labelVersion]; chart != "" && release(chart) != release(version) {
				found = append(found, output.Finding{Severity: output.Warning, Object: "pod/" + pod.Namespace + "/" + pod.Name,
					Message: fmt.Sprintf("its image is %s, and the chart that made it is for %s: flags and rights may not fit", version, chart), Next: "leave image.tag out of the chart's values, or use the chart of that version"})
			}
		}
	}
	versions := slices.Sorted(maps.Keys(running))
	if len(versions) > 1 {
		found = append(found, output.Finding{Severity: output.Warning, Object: "controller manager", Message: "its pods have different versions: " + strings.Join(versions, ", "),
			Next: "where no upgrade is under way, look why it stays: kubectl get pods -A -l " + manifests.Pods})
	}
	for _, v := range versions {
		if release(v) != "" && release(p.version) != "" && release(v) != release(p.version) {
			found = append(found, output.Finding{Severity: output.Warning, Object: "pod/" + running[v], Message: fmt.Sprintf("it is %s, and this isthmus %s: what doctor expects of it may differ", v, p.version), Next: nextOfVersions})
		}
	}
	return found, nil
}

// tag is that of an image, "" where it has none.
func tag(image string) string {
	image, _, _ = strings.Cut(image, "@")
	colon := strings.LastIndexByte(image, ':')
	if colon < strings.LastIndexByte(image, '/') {
		return ""
	}
	return image[colon+1:]
}

// release is the part of v1.2.3 that tells what is compatible, v1.2; "" where a version is not one of a release.
func release(version string) string {
	parts := strings.Split(version, ".")
	if len(parts) < 3 || !strings.HasPrefix(version, "v") {
		return ""
	}
	for _, n := range []string{parts[0][1:], parts[1]} {
		if _, err := strconv.ParseUint(n, 10, 16); err != nil {
			return ""
		}
	}
	return parts[0] + "." + parts[1]
}
