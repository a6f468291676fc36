package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"unicode/utf8"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/isthmus-cloud/isthmus/pkg/text"
)

const (
	reviewKind    = "AdmissionReview"
	reviewVersion = "admission.k8s.io/v1"
	betaVersion   = "admission.k8s.io/v1beta1"
	// maxAnswer is how many bytes an answer may have.
	maxAnswer = 64 << 10
	// maxPatch is how many a patch may have, which an answer has in base64.
	maxPatch = maxAnswer / 2
)

// review is what is known of a request: even of one that cannot be served, the version and
// the UID to answer with.
type review struct {
	apiVersion string
	request    admission.Request
}

// checkHeader refuses bodies that are no plain JSON.
func checkHeader(h http.Header) error {
	contentType := h.Get("Content-Type")
	if mediaType, _, err := mime.ParseMediaType(contentType); err != nil || mediaType != "application/json" {
		return fmt.Errorf("content type %q is not served; send an AdmissionReview as application/json", clip(contentType))
	}
	if encoding := h.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return fmt.Errorf("content encoding %q is not served; send the AdmissionReview uncompressed", clip(encoding))
	}
	return nil
}

// decodeReview decodes body, an AdmissionReview of v1 with a request. On an error the review
// holds what could be read. It keeps nothing of body.
func decodeReview(body []byte) (*review, error) {
	rv := &review{}
	if len(body) == 0 {
		return rv, fmt.Errorf("the body is empty; send an AdmissionReview of %s", reviewVersion)
	}
	if !utf8.Valid(body) { // each byte of it that is wrong would become three
		return rv, errors.New("the body is not an AdmissionReview: it is not UTF-8")
	}
	var ar admissionv1.AdmissionReview
	if err := utiljson.Unmarshal(body, &ar); err != nil {
		return rv, fmt.Errorf("the body is not an AdmissionReview: %s", clip(err.Error()))
	}
	if ar.Request != nil {
		rv.request.UID = types.UID(clip(string(ar.Request.UID)))
	}
	if ar.APIVersion == betaVersion {
		rv.apiVersion = betaVersion // v1 and v1beta1 have the same answers
	}
	switch {
	case ar.Kind != reviewKind || (ar.APIVersion != reviewVersion && ar.APIVersion != betaVersion):
		return rv, fmt.Errorf("got apiVersion %q, kind %q instead of %s, %s", clip(ar.APIVersion), clip(ar.Kind), reviewVersion, reviewKind)
	case ar.APIVersion == betaVersion:
		return rv, fmt.Errorf("version %s is not served; set admissionReviewVersions: [v1] in the webhook configuration", betaVersion)
	case ar.Request == nil:
		return rv, fmt.Errorf("the AdmissionReview has no request")
	case ar.Request.UID != rv.request.UID:
		return rv, fmt.Errorf("the uid has %d characters, more than any API server's", len(ar.Request.UID))
	case ar.Request.UID == "":
		return rv, fmt.Errorf("the AdmissionReview's request has no uid")
	}
	rv.request.AdmissionRequest = *ar.Request
	return rv, nil
}

// uidOf is the uid in the beginning of an AdmissionReview; "" if it is not in it.
func uidOf(head []byte) types.UID {
	decoder := json.NewDecoder(bytes.NewReader(head))
	var path []string // the names of the objects around
	name, isName := "", false
	for {
		token, err := decoder.Token()
		if err != nil {
			return ""
		}
		switch token := token.(type) {
		case json.Delim:
			switch token {
			case '{':
				path, isName = append(path, name), true
				continue
			case '[':
				return "" // there is none before it
			}
			path, isName = path[:len(path)-1], true
			continue
		case string:
			if isName {
				name, isName = token, false
				continue
			}
			if name == "uid" && slices.Equal(path, []string{"", "request"}) {
				return types.UID(clip(token))
			}
		}
		isName = true
	}
}

// encode returns the answer to rv. One that is too large is cut to what it says first.
func encode(rv *review, resp *admission.Response) ([]byte, error) {
	version := rv.apiVersion
	if version == "" {
		version = reviewVersion
	}
	resp.UID = rv.request.UID
	out := admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: reviewKind}, Response: &resp.AdmissionResponse}
	size := len(resp.Patch)
	for _, w := range resp.Warnings {
		size += len(w)
	}
	if resp.Result != nil {
		size += len(resp.Result.Message)
	}
	if size <= maxAnswer { // encoding makes more of it
		data, err := json.Marshal(out)
		if size = len(data); err != nil || size <= maxAnswer {
			return data, err
		}
	}
	code, message := int32(http.StatusInternalServerError), fmt.Sprintf("the answer would have %d bytes or more, of at most %d", size, maxAnswer)
	if !resp.Allowed && resp.Result != nil {
		code, message = resp.Result.Code, text.Clip(resp.Result.Message, maxAnswer/8)+" (cut, as the answer is too large)" // a byte takes up to 6
	}
	short := errorf(code, "%s", message)
	short.UID = resp.UID
	*resp = short
	return json.Marshal(out)
}

// writeReview sends the answer to rv. Where the uid is not known the API server takes no review,
// and shows what a Status says.
func writeReview(ctx context.Context, w http.ResponseWriter, rv *review, resp *admission.Response, answer []byte) {
	if rv.request.UID == "" {
		writeStatus(ctx, w, int(resp.Result.Code), resp.Result.Message)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(answer); err != nil {
		klog.FromContext(ctx).V(2).Info("Webhook answer could not be written", "uid", resp.UID, "reason", err.Error())
	}
}

type tooLargeError struct{ limit int64 }

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("the body is larger than the limit of %d bytes", e.limit)
}

// errorf returns a refusal with a code and a message.
func errorf(code int32, format string, args ...any) admission.Response {
	resp := admission.Errored(code, fmt.Errorf(format, args...))
	resp.Result.Status = metav1.StatusFailure
	resp.Result.Reason = reasonOf(int(code))
	if code == http.StatusTooManyRequests {
		resp.Result.Details = &metav1.StatusDetails{RetryAfterSeconds: retryAfter} // which clients heed by themselves
	}
	return resp
}

func reasonOf(code int) metav1.StatusReason {
	switch code {
	case http.StatusBadRequest:
		return metav1.StatusReasonBadRequest
	case http.StatusUnauthorized:
		return metav1.StatusReasonUnauthorized
	case http.StatusForbidden:
		return metav1.StatusReasonForbidden
	case http.StatusTooManyRequests:
		return metav1.StatusReasonTooManyRequests
	case http.StatusNotFound:
		return metav1.StatusReasonNotFound
	case http.StatusMethodNotAllowed:
		return metav1.StatusReasonMethodNotAllowed
	case http.StatusRequestEntityTooLarge:
		return metav1.StatusReasonRequestEntityTooLarge
	case http.StatusUnsupportedMediaType:
		return metav1.StatusReasonUnsupportedMediaType
	case http.StatusGatewayTimeout:
		return metav1.StatusReasonTimeout
	}
	return metav1.StatusReasonInternalError
}

// clip bounds what is repeated of a client's words.
func clip(s string) string { return text.Clip(s, 200) }
