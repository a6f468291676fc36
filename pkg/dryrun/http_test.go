package dryrun

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

func TestAnswerTakesThePlaceOfTheRequest(t *testing.T) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://cloud.example.org/things/1", strings.NewReader(`{"a":1}`))
	if err != nil {
		t.Fatal(err)
	}
	body, err := Body(req)
	if err != nil || string(body) != `{"a":1}` {
		t.Errorf("body %s, %v", body, err)
	}
	resp, err := AnswerWith(req, http.StatusCreated, map[string]int{"id": 2})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err != nil || string(got) != `{"id":2}` || resp.StatusCode != http.StatusCreated || resp.Request != req || resp.ContentLength != int64(len(got)) {
		t.Errorf("answer %+v: %s, %v", resp, got, err)
	}
	if _, err := AnswerWith(req, http.StatusOK, func() {}); err == nil {
		t.Error("what is no document is answered")
	}
}

func TestBodyOfNoneAndOfOneThatBreaks(t *testing.T) {
	if body, err := Body(&http.Request{}); body != nil || err != nil {
		t.Errorf("%s, %v", body, err)
	}
	broken := errors.New("broken")
	if _, err := Body(&http.Request{Body: io.NopCloser(iotest.ErrReader(broken))}); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}
