package serving

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/version"
)

// The metrics of a replica say which build it is, whatever it runs.
func TestBuildInfo(t *testing.T) {
	w := httptest.NewRecorder()
	metricsHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	want := fmt.Sprintf("\nisthmus_build_info{goversion=%q,version=%q} 1\n", runtime.Version(), version.String())
	if got := w.Body.String(); w.Code != 200 || strings.Count(got, want) != 1 {
		t.Errorf("%d without %s: %.500s", w.Code, want, got)
	}
}

// blocked does not take what is written to it until it may.
type blocked struct {
	*httptest.ResponseRecorder
	begun func()
	may   <-chan struct{}
}

func (b blocked) Write(p []byte) (int, error) {
	b.begun()
	<-b.may
	return b.ResponseRecorder.Write(p)
}

// So many ask for metrics at a time, and no more.
func TestMetricsAtATime(t *testing.T) {
	h, may := metricsHandler(), make(chan struct{})
	var begun, ended sync.WaitGroup
	begun.Add(maxScrapes)
	for range maxScrapes {
		ended.Go(func() {
			h.ServeHTTP(blocked{httptest.NewRecorder(), sync.OnceFunc(begun.Done), may}, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		})
	}
	begun.Wait()
	for _, want := range []int{http.StatusServiceUnavailable, http.StatusOK} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if w.Code != want {
			t.Errorf("got %d, want %d", w.Code, want)
		}
		if want != http.StatusOK {
			close(may)
			ended.Wait()
		}
	}
}
