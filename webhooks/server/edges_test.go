package server

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// The uid is what stands under that name in the request, wherever in it, as far as the head of a body goes.
func TestUIDOfAHead(t *testing.T) {
	for head, want := range map[string]types.UID{
		`{"kind":"AdmissionReview","request":{"uid":"a","kind":{}`:   "a",
		`{"request":{"name":"x","uid":"a"`:                           "a",
		`{"request":{"kind":{"uid":"x"},"uid":"a"}}`:                 "a",
		`{"uid":"x","request":{"name":"y"}}`:                         "",
		`{"request":{"object":{"metadata":{"uid":"x"}},"name":"y"}}`: "",
		`{"request":{"name":"uid","operation":"CREATE"}}`:            "",
		`{"request":{"uid":1}}`:                                      "",
		`{"request":{"uid":"a`:                                       "",
		`[{"request":{"uid":"a"}}]`:                                  "",
		``:                                                           "",
	} {
		if got := uidOf([]byte(head)); got != want {
			t.Errorf("%s: %q, want %q", head, got, want)
		}
	}
}

// Who is late with a body gives way with all that it holds, and comes last afterwards until a body of its is there in time.
func TestBodyThatIsLateGivesWayWithAllItHolds(t *testing.T) {
	c := newCommon(*NewOptions())
	h := newHook("test", nil, &c)
	a := &arrival{hook: h, client: "c", giveWay: func(error) {}}
	var err error
	if a.slot, err = h.slots.take(t.Context(), &claim{client: "c", n: 1, giveWay: a.giveWay}, false); err != nil {
		t.Fatal(err)
	}
	if a.memory, err = h.memory.take(t.Context(), &claim{client: "c", n: 1000, giveWay: a.giveWay}, true); err != nil {
		t.Fatal(err)
	}
	if a.slot.late || a.memory.late || h.latecomers.has("c") {
		t.Error("it is late before it is")
	}
	if a.expire(); !a.slot.late || !a.memory.late || !h.latecomers.has("c") || h.latecomers.has("other") {
		t.Errorf("slot late %t, memory late %t, remembered %t", a.slot.late, a.memory.late, h.latecomers.has("c"))
	}
	a.giveBack()
}

// Without a source of certificates nothing can be served, unless nothing is to be.
func TestServerWithoutCertificates(t *testing.T) {
	for port, want := range map[int]bool{0: true, 10260: false} {
		if s, err := New(Options{Port: port}); (err == nil) != want || (s != nil) != want {
			t.Errorf("port %d: %v", port, err)
		}
	}
}

// No line of the log is long, whatever is in it: each value is cut, and all together are.
func TestLinesOfTheLogAreBounded(t *testing.T) {
	long := strings.Repeat("x\n\"", 10_000)
	many := make([]any, 0, 200)
	for n := range 100 {
		many = append(many, fmt.Sprint("key", n%3), long[:100])
	}
	for name, write := range map[string]func(klog.Logger){
		"message":        func(l klog.Logger) { l.Info(long) },
		"value":          func(l klog.Logger) { l.Info("what", "a", long) },
		"values":         func(l klog.Logger) { l.Info("what", "a", long, "b", long, "c", long, "d", long, "e", long, "f", long) },
		"error":          func(l klog.Logger) { l.Error(errors.New(long), long, "a", long) },
		"values of both": func(l klog.Logger) { l.WithValues("a", long, "b", long).Info(long, "c", long) },
		"what has a text": func(l klog.Logger) {
			l.Info("what", "a", errors.New(long), "b", klog.KRef(long, long), "c", []string{long})
		},
		"many values": func(l klog.Logger) { l.Info("what", many...) },
	} {
		var out bytes.Buffer
		write(bounded(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&out)))))
		line := strings.TrimSuffix(out.String(), "\n")
		most := maxLogged + 200 // the time, the place and the names
		if name == "many values" {
			most += 100 * len(` key1=""`)
		}
		if line == "" || len(line) > most || strings.Contains(line, "\n") {
			t.Errorf("%s: %d bytes, %d lines", name, len(line), 1+strings.Count(line, "\n"))
		}
		for _, value := range strings.FieldsFunc(line, func(r rune) bool { return r == '"' }) {
			if len(value) > maxLoggedValue+len("…") {
				t.Errorf("%s: a value of %d bytes", name, len(value))
			}
		}
	}
}

// An answer is bounded as it is sent: each byte of a text may take six.
func TestAnswerIsBoundedAsItIsSent(t *testing.T) {
	rv := &review{}
	rv.request.UID = "u"
	for name, resp := range map[string]admission.Response{
		"refusal":  admission.Denied(strings.Repeat("\x01", maxAnswer-100)),
		"warnings": admission.Allowed("").WithWarnings(strings.Repeat("\x01", maxAnswer/2)),
	} {
		data, err := encode(rv, &resp)
		if err != nil || len(data) > maxAnswer || resp.Allowed || resp.UID != "u" {
			t.Errorf("%s: %d bytes, %v, allowed %t", name, len(data), err, resp.Allowed)
		}
	}
	short := admission.Denied("no")
	if data, err := encode(rv, &short); err != nil || !strings.Contains(string(data), `"message":"no"`) {
		t.Errorf("a short one: %s, %v", data, err)
	}
}

// All that a request held is given back with it.
func TestAllIsGivenBack(t *testing.T) {
	c := newCommon(*NewOptions())
	h := newHook("test", nil, &c)
	a := &arrival{hook: h, client: "c", giveWay: func(error) {}}
	for of, into := range map[*shares]**claim{h.slots: &a.slot, h.memory: &a.memory, h.decoded: &a.decoded} {
		var err error
		if *into, err = of.take(t.Context(), &claim{client: "c", n: 1, giveWay: a.giveWay}, false); err != nil {
			t.Fatal(err)
		}
	}
	a.giveBack()
	for name, got := range map[string][2]int64{
		"slots": {h.slots.free, maxInFlight + reservedSlots}, "bodies": {h.memory.free, maxBodies + reservedMemory}, "what is built of them": {h.decoded.free, maxDecoded + reservedMemory},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %d are free, want %d", name, got[0], got[1])
		}
	}
}
