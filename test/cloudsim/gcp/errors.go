package gcp

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// apiError is an error that Google answers with. code is OAuth's ("invalid_grant") or an API's
// ("PERMISSION_DENIED").
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

// errorReply gives an error the shape that the service uses.
func errorReply(service string, e *apiError) *reply {
	if e.status == 0 {
		e.status = http.StatusBadRequest
	}
	switch service {
	case "metadata":
		return &reply{Status: e.status, ContentType: "text/html; charset=UTF-8", Header: flavored(), Body: fmt.Appendf(nil, "<!DOCTYPE html>\n<html lang=en>\n<title>Error %d (%s)</title>\n<p>%s\n", e.status, http.StatusText(e.status), e.message)}
	case "oauth2", "sts":
		return jsonReply(e.status, map[string]string{"error": e.code, "error_description": e.message})
	case "registry":
		return jsonReply(e.status, map[string]any{"errors": []map[string]string{{"code": e.code, "message": e.message}}})
	}
	return jsonReply(e.status, map[string]any{"error": map[string]any{"code": e.status, "message": e.message, "status": e.code}})
}

func jsonReply(status int, body any) *reply {
	data, err := json.Marshal(body)
	if err != nil {
		return &reply{Status: http.StatusInternalServerError, Body: []byte(err.Error())}
	}
	return &reply{Status: status, ContentType: "application/json; charset=UTF-8", Body: data}
}

// randomText is n characters that nobody guesses.
func randomText(n int) string {
	b := make([]byte, (n+1)/2)
	_, _ = rand.Read(b) // never fails
	return strings.ToLower(hex.EncodeToString(b))[:n]
}
