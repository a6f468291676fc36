//go:build shapehook

// Package version has this file only while hack/shape builds the manager.
package version

import (
	"net"
	"net/http"
	"os"
	"runtime/coverage"
)

// init lets hack/shape take the counters of a running manager, through a socket.
func init() {
	l, err := net.Listen("unix", os.Getenv("ISTHMUS_SHAPE_SOCKET"))
	if err != nil {
		panic(err)
	}
	answer := func(do func(dir string) error) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if err := do(r.FormValue("dir")); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/clear", answer(func(string) error { return coverage.ClearCounters() }))
	mux.HandleFunc("/write", answer(func(dir string) error {
		if err := coverage.WriteMetaDir(dir); err != nil {
			return err
		}
		return coverage.WriteCountersDir(dir)
	}))
	go func() { panic(http.Serve(l, mux)) }()
}
