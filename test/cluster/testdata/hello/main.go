// Command hello answers HTTP requests with the name of the machine that it runs on, which for a pod
// is the pod's.
package main

import (
	"context"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	name, err := os.Hostname()
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Addr: ":8080", ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ready" {
			return
		}
		_, _ = io.WriteString(w, "hello from "+name+"\n")
	})}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case err := <-failed:
		log.Fatal(err)
	case <-ctx.Done():
	}
	<-time.After(2 * time.Second) // load balancers and kube-proxy hear of the end a moment later than this process
	if err := server.Shutdown(context.WithoutCancel(ctx)); err != nil {
		log.Fatal(err)
	}
}
