package main

import (
	"fmt"
	"io"
	"time"
)

// progress says how far something is once it takes longer than two seconds, and every five seconds from then on.
type progress struct {
	out   io.Writer
	title string
	begin time.Time
	next  time.Time
}

func newProgress(out io.Writer, title string) *progress {
	now := time.Now()
	return &progress{out: out, title: title, begin: now, next: now.Add(2 * time.Second)}
}

// see is told what is seen.
func (p *progress) see(what string) {
	now := time.Now()
	if now.Before(p.next) {
		return
	}
	p.next = now.Add(5 * time.Second)
	fmt.Fprintf(p.out, "  … %s: %s (%.0f s)\n", p.title, what, now.Sub(p.begin).Seconds())
}
