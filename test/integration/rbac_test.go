package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
)

// applyRBAC creates the objects of YAML documents.
func applyRBAC(ctx context.Context, client kubernetes.Interface, documents []byte) error {
	reader := utilyaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(documents)))
	defer func() { _ = reader.Close() }() // it reads memory
	buf := make([]byte, len(documents)+1)
	for {
		n, err := reader.Read(buf)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(buf[:n], nil, nil)
		if err != nil {
			return fmt.Errorf("decode RBAC: %w", err)
		}
		var o metav1.CreateOptions
		switch x := obj.(type) {
		case *corev1.ServiceAccount:
			_, err = client.CoreV1().ServiceAccounts(x.Namespace).Create(ctx, x, o)
		case *rbacv1.ClusterRole:
			_, err = client.RbacV1().ClusterRoles().Create(ctx, x, o)
		case *rbacv1.ClusterRoleBinding:
			_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, x, o)
		case *rbacv1.Role:
			_, err = client.RbacV1().Roles(x.Namespace).Create(ctx, x, o)
		case *rbacv1.RoleBinding:
			_, err = client.RbacV1().RoleBindings(x.Namespace).Create(ctx, x, o)
		default:
			err = fmt.Errorf("unexpected %T", obj)
		}
		if err != nil {
			return fmt.Errorf("apply RBAC: %w", err)
		}
	}
}
