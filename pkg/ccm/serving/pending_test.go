package serving

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/options"
)

// Tokens that nobody knows wait for the API server, so many of an address and no more; another address
// has room all the same, and all have it again afterwards.
func TestGuardBoundsWhatWaits(t *testing.T) {
	const tooMany = 8
	client, answer := fake.NewClientset(), make(chan struct{})
	client.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		<-answer
		return true, a.(clienttesting.CreateAction).GetObject(), nil
	})
	g, err := newGuard(options.Auth{RequestTimeout: time.Hour}, client.AuthenticationV1().TokenReviews(), client.AuthorizationV1().SubjectAccessReviews())
	if err != nil {
		t.Fatal(err)
	}
	codes := make(chan int, 2*maxPendingOfAddress)
	send := func(address string, i int) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://x/metrics", nil)
		r.RemoteAddr = address + ":1"
		r.Header.Set("Authorization", fmt.Sprint("Bearer ", address, i))
		w := httptest.NewRecorder()
		g.wrap(http.NotFoundHandler()).ServeHTTP(w, r)
		codes <- w.Code
	}
	for i := range maxPendingOfAddress + tooMany {
		go send("192.0.2.1", i)
	}
	for range tooMany {
		if code := <-codes; code != http.StatusTooManyRequests {
			t.Errorf("one too many is answered %d", code)
		}
	}
	go send("192.0.2.2", 0)
	close(answer)
	for range maxPendingOfAddress + 1 {
		if code := <-codes; code != http.StatusUnauthorized {
			t.Errorf("who waits is answered %d", code)
		}
	}
	send("192.0.2.1", -1)
	if code := <-codes; code != http.StatusUnauthorized || g.pending.sum != 0 || len(g.pending.addresses) != 0 {
		t.Errorf("afterwards one is answered %d, %d wait", code, g.pending.sum)
	}
}
