package query

import (
	"fmt"
	"net/http"
)

// Error is what a service answers with in place of a result.
type Error struct {
	Status        int
	Code, Message string
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%d %s: %s", e.Status, e.Code, e.Message) }

// Errorf is an error with status 400, as nearly all are.
func Errorf(code, format string, args ...any) error {
	return &Error{Status: http.StatusBadRequest, Code: code, Message: fmt.Sprintf(format, args...)}
}
