package registration

import (
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestValidatingCarriesEveryField: what is copied by hand between the two kinds is all that the
// API knows; a version of it with one more field fails here.
func TestValidatingCarriesEveryField(t *testing.T) {
	full := admissionregistrationv1.MutatingWebhook{}
	fill(t, reflect.ValueOf(&full).Elem())
	in := &configuration{
		TypeMeta: metav1.TypeMeta{Kind: "k", APIVersion: "v"}, ObjectMeta: metav1.ObjectMeta{Name: "n"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{full},
	}
	out := toValidating(in)
	for _, v := range []reflect.Value{reflect.ValueOf(*out), reflect.ValueOf(out.Webhooks[0])} {
		for i := range v.NumField() {
			if v.Field(i).IsZero() {
				t.Errorf("toValidating leaves %s.%s out", v.Type(), v.Type().Field(i).Name)
			}
		}
	}
	want := in.DeepCopy()
	want.Webhooks[0].ReinvocationPolicy = nil // of mutating ones only
	if diff := cmp.Diff(want, fromValidating(out)); diff != "" {
		t.Errorf("there and back (-want +got):\n%s", diff)
	}
	only := []string{"ReinvocationPolicy"}
	m, v := reflect.TypeFor[admissionregistrationv1.MutatingWebhook](), reflect.TypeFor[admissionregistrationv1.ValidatingWebhook]()
	for i := range m.NumField() {
		name := m.Field(i).Name
		if _, both := v.FieldByName(name); both == slices.Contains(only, name) {
			t.Errorf("%s is in both kinds: %t", name, both)
		}
	}
}

// fill makes every field of the struct v something.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	case reflect.String:
		v.SetString("x")
	case reflect.Int32:
		v.SetInt(1)
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Bool:
		v.SetBool(true)
	default:
		t.Fatalf("nothing to fill a %s with", v.Type())
	}
}
