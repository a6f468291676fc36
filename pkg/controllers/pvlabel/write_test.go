package pvlabel

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/pv"
)

// still is a controller that does nothing by itself, whose API server answers as answer does.
func still(t *testing.T, answer http.HandlerFunc) (*Controller, *record.FakeRecorder) {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := NewMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	recorder, core := record.NewFakeRecorder(10), informers.NewSharedInformerFactory(client, 0).Core().V1()
	c := New(Config{Client: client, PersistentVolumes: core.PersistentVolumes(), Nodes: core.Nodes(), Recorder: recorder, Metrics: metrics,
		Clock: clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))})
	t.Cleanup(c.queue.ShutDown)
	return c, recorder
}

func lacking() *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", UID: "uid", ResourceVersion: "1"},
		Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{Cinder: &corev1.CinderPersistentVolumeSource{VolumeID: "v"}}}}
}

// One that could not be written has got nothing: it is tried again, unless it is gone, and nobody says otherwise.
func TestOnlyWhatIsWrittenIsLabeled(t *testing.T) {
	for status, want := range map[int]struct {
		labeled, failed float64
		retries         int
		settled         bool
	}{
		http.StatusOK:                  {labeled: 1, settled: true},
		http.StatusNotFound:            {},
		http.StatusConflict:            {retries: 1},
		http.StatusForbidden:           {failed: 1, retries: 1},
		http.StatusInternalServerError: {failed: 1, retries: 1},
	} {
		c, recorder := still(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			reason := map[int]string{http.StatusNotFound: "NotFound", http.StatusConflict: "Conflict", http.StatusForbidden: "Forbidden"}[status]
			body := `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"` + reason + `"}`
			if status == http.StatusOK {
				body = `{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"pv","uid":"uid","resourceVersion":"2"},"spec":{"cinder":{"volumeID":"v"}}}`
			}
			_, _ = w.Write([]byte(body)) // the client reads it
		})
		object := lacking()
		c.write(t.Context(), &candidate{object: object, mutation: pv.Mutation{Labels: map[string]string{corev1.LabelTopologyZone: "az1"}}})
		labeled, failed := testutil.ToFloat64(c.Metrics.volumes.WithLabelValues(resultLabeled)), testutil.ToFloat64(c.Metrics.volumes.WithLabelValues(resultFailed))
		if labeled != want.labeled || failed != want.failed || c.queue.NumRequeues("pv") != want.retries || c.settled(object) != want.settled || len(recorder.Events) != int(want.labeled) {
			t.Errorf("%d: labeled %v, failed %v, %d retries, settled %t, %d events, want %+v", status, labeled, failed, c.queue.NumRequeues("pv"), c.settled(object), len(recorder.Events), want)
		}
	}
}

// What the cloud does not answer is a failure that is counted and tried again; after some it is said, once.
func TestUnknownIsCountedAndTriedAgain(t *testing.T) {
	c, recorder := still(t, http.NotFound)
	n := &candidate{object: lacking()}
	for k := range quietTries + 3 {
		c.unknown(t.Context(), n, errors.New("down"))
		said := 0
		if k >= quietTries {
			said = 1
		}
		if failed := testutil.ToFloat64(c.Metrics.volumes.WithLabelValues(resultFailed)); failed != float64(k+1) || c.queue.NumRequeues("pv") != k+1 || len(recorder.Events) != said {
			t.Errorf("after %d: %v failed, %d retries, %d events", k+1, failed, c.queue.NumRequeues("pv"), len(recorder.Events))
		}
	}
}

// What is settled is looked at again by a resync and when it changes, but not because something else of it does.
func TestSettledIsLookedAtAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*corev1.PersistentVolume)
		want   int
	}{
		"resync": {func(*corev1.PersistentVolume) {}, 1},
		"another field": {func(pv *corev1.PersistentVolume) {
			pv.ResourceVersion, pv.Annotations = "2", map[string]string{"a": "b"}
		}, 0},
		"a label": {func(pv *corev1.PersistentVolume) {
			pv.ResourceVersion, pv.Labels = "2", map[string]string{corev1.LabelTopologyZone: "az1"}
		}, 1},
		"deleted": {func(pv *corev1.PersistentVolume) { pv.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, 0},
		"opted out": {func(object *corev1.PersistentVolume) {
			object.ResourceVersion, object.Labels = "2", map[string]string{pv.OptOutLabel: "true"}
		}, 0},
	} {
		c, _ := still(t, http.NotFound)
		before := lacking()
		c.settle(before)
		now := before.DeepCopy()
		tt.change(now)
		c.handlers().OnUpdate(before, now)
		if c.queue.Len() != tt.want {
			t.Errorf("%s: %d queued, want %d", name, c.queue.Len(), tt.want)
		}
	}
}

// curt is a cloud that answers about fewer volumes than it was asked about.
type curt struct {
	Volumes
	answers int
}

func (v curt) Find(context.Context, []cloud.VolumeRef) []cloud.Result[*cloud.Volume] {
	return make([]cloud.Result[*cloud.Volume], v.answers)
}

// What the cloud does not answer about is tried again, and nothing is added meanwhile.
func TestNothingIsAddedWhenTheCloudGivesTooFewAnswers(t *testing.T) {
	for answers := range 4 {
		c, _ := still(t, http.NotFound)
		c.Volumes = curt{answers: answers}
		n := &candidate{object: lacking()}
		ready := c.ask(t.Context(), []*candidate{n, n, n}, make([]cloud.VolumeRef, 3))
		if failed := testutil.ToFloat64(c.Metrics.volumes.WithLabelValues(resultFailed)); len(ready) != 0 || failed != 3 || c.queue.NumRequeues("pv") != 3 {
			t.Errorf("%d answers to 3 questions: %d are ready, %v failed, %d tries", answers, len(ready), failed, c.queue.NumRequeues("pv"))
		}
	}
}
