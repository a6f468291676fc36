package controlplane

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Apply applies the objects of YAML documents with all rights, on the server and with force:
// what is there already becomes as it is wanted, as with `kubectl apply --server-side
// --force-conflicts`.
func (c *ControlPlane) Apply(ctx context.Context, documents []byte) error {
	to, err := client.New(c.Config, client.Options{})
	if err != nil {
		return err
	}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(documents)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read YAML documents: %w", err)
		}
		obj := &unstructured.Unstructured{}
		if err := utilyaml.Unmarshal(document, &obj.Object); err != nil {
			return fmt.Errorf("decode a YAML document: %w", err)
		}
		if len(obj.Object) == 0 { // only comments
			continue
		}
		if err := to.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner("controlplane"), client.ForceOwnership); err != nil {
			return fmt.Errorf("apply %s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
	}
}
