package server

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/text"
)

const (
	// maxLogged is about how many bytes the message and the values of one line may have; klog
	// adds time, place and quotes to them.
	maxLogged = 700
	// maxLoggedValue is how many each of the values may have.
	maxLoggedValue = 256
)

// bounded returns logger with lines of at most 1 KiB, whatever is in requests: who may ask a
// webhook must not be able to fill a disk, or to hide what others do.
func bounded(logger klog.Logger) klog.Logger {
	sink := logger.GetSink()
	if s, ok := sink.(logr.CallDepthLogSink); ok {
		sink = s.WithCallDepth(1)
	}
	return logger.WithSink(boundedSink{sink, maxLogged})
}

// boundedSink cuts what it passes on to the sink within.
type boundedSink struct {
	logr.LogSink
	// left is what a line may have beside the values that the sink within has already.
	left int
}

var _ logr.CallDepthLogSink = boundedSink{}

// Init implements logr.LogSink: the sink within was initialized.
func (boundedSink) Init(logr.RuntimeInfo) {}

// Info implements logr.LogSink.
func (s boundedSink) Info(level int, msg string, values ...any) {
	left := s.left
	msg = cutFrom(&left, msg)
	s.LogSink.Info(level, msg, cutAll(&left, values)...)
}

// Error implements logr.LogSink.
func (s boundedSink) Error(err error, msg string, values ...any) {
	left := s.left
	msg = cutFrom(&left, msg)
	if err != nil {
		err = errors.New(cutFrom(&left, err.Error()))
	}
	s.LogSink.Error(err, msg, cutAll(&left, values)...)
}

// WithValues implements logr.LogSink.
func (s boundedSink) WithValues(values ...any) logr.LogSink {
	cut := cutAll(&s.left, values)
	return boundedSink{s.LogSink.WithValues(cut...), s.left}
}

// WithName implements logr.LogSink.
func (s boundedSink) WithName(name string) logr.LogSink {
	return boundedSink{s.LogSink.WithName(name), s.left}
}

// WithCallDepth implements logr.CallDepthLogSink.
func (s boundedSink) WithCallDepth(depth int) logr.LogSink {
	if inner, ok := s.LogSink.(logr.CallDepthLogSink); ok {
		return boundedSink{inner.WithCallDepth(depth), s.left}
	}
	return s
}

// cutAll returns keys and values with the values cut, so that they fit into what is left.
func cutAll(left *int, values []any) []any {
	out := make([]any, len(values))
	for i, v := range values {
		out[i] = v
		if i%2 == 0 {
			continue
		}
		switch v := v.(type) {
		case nil, bool, int, int32, int64, float64:
			*left -= 8
		case fmt.Stringer:
			out[i] = cutFrom(left, v.String())
		case error:
			out[i] = cutFrom(left, v.Error())
		default:
			out[i] = cutFrom(left, fmt.Sprint(v))
		}
	}
	return out
}

// cutFrom returns s cut to what is left, and to maxLoggedValue. What would be quoted at
// several bytes for one is replaced.
func cutFrom(left *int, s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '"', r == '\\':
			return '\''
		case !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, text.Clip(s, max(0, min(*left, maxLoggedValue))))
	*left -= len(s)
	return s
}
