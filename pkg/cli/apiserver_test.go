package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/isthmus-cloud/isthmus/test/controlplane"
)

// clusterUID is that of the namespace kube-system.
const clusterUID = "11111111-2222-4333-8444-555555555555"

// apiServer answers with objects that it is given, in pages, and says yes to each question about rights. It counts what it is asked.
// A real one would take minutes to be given a thousand Nodes for each cloud and state; the commands' own tests have it.
type apiServer struct {
	url string
	// objects are those that are read by their paths, and lists those of collections.
	objects map[string]any
	lists   map[string][]any

	mu    sync.Mutex
	asked map[string]int
}

// newAPIServer starts one that has what each has.
func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{objects: map[string]any{}, lists: map[string][]any{}, asked: map[string]int{}}
	s.objects["/api/v1/namespaces/kube-system"] = &corev1.Namespace{TypeMeta: metav1.TypeMeta{Kind: "Namespace", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: clusterUID, CreationTimestamp: old()}}
	s.objects["/version"] = map[string]string{"major": "1", "minor": "37", "gitVersion": "v1.37.1"}
	s.add("/api/v1/services", &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes", UID: "kubernetes"}})
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// old is when objects were made that are not new any more.
func old() metav1.Time { return metav1.NewTime(time.Now().Add(-24 * time.Hour)) }

// add has a collection list an object, which is read by its own path as well.
func (s *apiServer) add(collection string, o metav1.Object) {
	s.lists[collection] = append(s.lists[collection], o)
	at := collection
	if o.GetNamespace() != "" {
		at = strings.Replace(collection, "/v1/", "/v1/namespaces/"+o.GetNamespace()+"/", 1)
	}
	s.objects[at+"/"+o.GetName()] = o
}

// ServeHTTP implements http.Handler.
func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	one, ok := s.objects[r.URL.Path]
	last := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	s.mu.Lock()
	s.asked[r.Method+" "+strings.TrimSuffix(r.URL.Path, "/"+map[bool]string{true: last}[ok])]++
	s.mu.Unlock()
	status := http.StatusOK
	switch {
	case ok:
	case r.Method == http.MethodPost:
		one = map[string]any{"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "status": map[string]any{"allowed": true}}
	case strings.HasSuffix(r.URL.Path, "/cloud-controller-manager"): // the lease, or the ServiceAccount
		status = http.StatusNotFound
		one = &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
	default:
		one = s.page(r)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(one)
}

// page is a page of a collection, which may be empty.
func (s *apiServer) page(r *http.Request) any {
	q, all := r.URL.Query(), s.lists[r.URL.Path]
	from, _ := strconv.Atoi(q.Get("continue"))
	to, next := len(all), ""
	if limit, _ := strconv.Atoi(q.Get("limit")); limit > 0 && from+limit < len(all) {
		to = from + limit
		next = strconv.Itoa(to)
	}
	page := map[string]any{"metadata": metav1.ListMeta{ResourceVersion: "1", Continue: next}, "items": append([]any{}, all[from:to]...)}
	if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadataList") {
		page["kind"], page["apiVersion"] = "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	return page
}

// took returns how often what was asked since the last call.
func (s *apiServer) took() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.asked
	s.asked = map[string]int{}
	return out
}

// kubeconfig leads to it.
func (s *apiServer) kubeconfig(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(file, &rest.Config{Host: s.url}); err != nil {
		t.Fatal(err)
	}
	return file
}
