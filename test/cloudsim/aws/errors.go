package aws

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
)

// apiError is an error that AWS answers with.
type apiError struct {
	status  int
	code    string
	message string
}

// Error implements error.
func (e *apiError) Error() string { return fmt.Sprintf("%d %s: %s", e.status, e.code, e.message) }

func errorf(status int, code, format string, args ...any) error {
	return &apiError{status: status, code: code, message: fmt.Sprintf(format, args...)}
}

// The shapes of an error in the query protocol (XML).
type xmlError struct {
	XMLName   xml.Name `xml:"https://sts.amazonaws.com/doc/2011-06-15/ ErrorResponse"`
	Type      string   `xml:"Error>Type"`
	Code      string   `xml:"Error>Code"`
	Message   string   `xml:"Error>Message"`
	RequestID string   `xml:"RequestId"`
}

// errorReply gives an error the shape that the call's service uses.
func (c *call) errorReply(err error) *reply {
	e := asAPIError(err)
	if e.status == 0 {
		e.status = http.StatusBadRequest
	}
	switch c.endpoint.service {
	case "ec2":
		return c.ec2Error(e)
	case elbService:
		return c.elbError(e)
	case "sts":
		kind := "Sender"
		if e.status >= http.StatusInternalServerError {
			kind = "Receiver"
		}
		return xmlReply(e.status, xmlError{Type: kind, Code: e.code, Message: e.message, RequestID: c.id})
	case "imds":
		return &reply{Status: e.status, ContentType: "text/html", Body: fmt.Appendf(nil, "<?xml version=\"1.0\" encoding=\"iso-8859-1\"?>\n<html><head><title>%d - %s</title></head><body><h1>%d - %s</h1></body></html>\n",
			e.status, http.StatusText(e.status), e.status, http.StatusText(e.status))}
	case "container":
		return jsonReply(e.status, "application/json", map[string]string{"code": e.code, "message": e.message})
	}
	r := jsonReply(e.status, "application/x-amz-json-1.1", map[string]string{"__type": e.code, "message": e.message})
	return r
}

func jsonReply(status int, contentType string, body any) *reply {
	data, err := json.Marshal(body)
	if err != nil {
		return &reply{Status: http.StatusInternalServerError, Body: []byte(err.Error())}
	}
	return &reply{Status: status, ContentType: contentType, Body: data}
}

func xmlReply(status int, body any) *reply {
	data, err := xml.Marshal(body)
	if err != nil {
		return &reply{Status: http.StatusInternalServerError, Body: []byte(err.Error())}
	}
	return &reply{Status: status, ContentType: "text/xml", Body: data}
}

func requestID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// randomText is n characters that nobody guesses.
func randomText(n int) string {
	b := make([]byte, (n+1)/2)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)[:n]
}
