package rig

import (
	"fmt"
	"io"
	"time"
)

// Progress says how far something is once it takes longer than two seconds, and every five seconds from then on.
type Progress struct {
	out   io.Writer
	title string
	begin time.Time
	next  time.Time
}

// NewProgress returns one that begins now.
func NewProgress(out io.Writer, title string) *Progress {
	now := time.Now()
	return &Progress{out: out, title: title, begin: now, next: now.Add(2 * time.Second)}
}

// See is told what is seen.
func (p *Progress) See(what string) {
	now := time.Now()
	if now.Before(p.next) {
		return
	}
	p.next = now.Add(5 * time.Second)
	fmt.Fprintf(p.out, "  … %s: %s (%.0f s)\n", p.title, what, now.Sub(p.begin).Seconds())
}
