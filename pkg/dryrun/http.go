package dryrun

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// Body reads what a request would send, and closes it; nil for none.
func Body(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(req.Body)
	_ = req.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("dry run: read the request's body: %w", err)
	}
	return body, nil
}

// Answer is an answer of JSON in place of the one to a request that is not sent.
func Answer(req *http.Request, status int, body []byte) *http.Response {
	return &http.Response{
		StatusCode: status, Status: fmt.Sprintf("%d %s", status, http.StatusText(status)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"application/json"}},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)), Request: req,
	}
}

// AnswerWith is Answer with a document.
func AnswerWith(req *http.Request, status int, doc any) (*http.Response, error) {
	body, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("dry run: %s %s: %w", req.Method, req.URL.Path, err)
	}
	return Answer(req, status, body), nil
}
