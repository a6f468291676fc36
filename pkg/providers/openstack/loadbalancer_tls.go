package openstack

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
	"github.com/isthmus-cloud/isthmus/pkg/text"
)

// checkCertificates asks Barbican for the certificates of listeners that are about to get
// them. Octavia refuses those that are missing as well, but says so late, on a load
// balancer that is there already, and without the next step. Another store is not asked.
func (o *lbOperation) checkCertificates(ctx context.Context, w *lbWishes, listeners ...*lbListener) error {
	if w.cfg.ContainerStore != config.StoreBarbican {
		return nil
	}
	checked := map[string]bool{}
	for _, l := range listeners {
		if l == nil || l.TLSRef == "" || checked[l.TLSRef] {
			continue
		}
		checked[l.TLSRef] = true
		if err := o.checkCertificate(ctx, w, l.TLSRef); err != nil {
			return err
		}
	}
	return nil
}

func (o *lbOperation) checkCertificate(ctx context.Context, w *lbWishes, ref string) error {
	if problem := w.certificateProblem(); problem != nil {
		return cloud.Refuse(cloud.KindInvalid, "", field.ErrorList{problem})
	}
	source := "annotation " + annTLSContainerRef
	if !w.spec.Settings.Has(annTLSContainerRef) {
		source = "cloud.conf [LoadBalancer] default-tls-container-ref"
	}
	kind, id := barbicanRef(ref)
	sc, err := o.lb.c.Service(ctx, "key-manager")
	if err != nil {
		return fmt.Errorf("%s: check the certificate: %w; if the cloud has no Barbican, set [LoadBalancer] container-store = external", source, err)
	}
	var doc struct{}
	err = api.WrapError(fmt.Sprintf("get %s %s", strings.TrimSuffix(kind, "s"), id), api.GetJSON(ctx, sc, sc.ServiceURL(kind, id), &doc))
	switch {
	case cloud.IsNotFound(err):
		return &cloud.Error{Kind: cloud.KindInvalid, Err: fmt.Errorf("%s: Barbican has no %s %s: store the certificate or correct the reference", source, strings.TrimSuffix(kind, "s"), id)}
	case cloud.KindOf(err) == cloud.KindDenied:
		return &cloud.Error{Kind: cloud.KindDenied, Err: fmt.Errorf("%s: %w: let the cloud controller manager's user (and Octavia's) read it", source, err)}
	}
	return err
}

// barbicanRef reads a reference: its kind is containers or secrets, "" for neither.
func barbicanRef(ref string) (kind, id string) {
	parts := strings.Split(strings.TrimSuffix(ref, "/"), "/")
	if len(parts) < 2 || !text.IsUUID(parts[len(parts)-1]) {
		return "", ""
	}
	kind, id = parts[len(parts)-2], parts[len(parts)-1]
	if kind != "containers" && kind != "secrets" {
		return "", ""
	}
	return kind, id
}
