package orphans

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// openTerminal returns both ends of a terminal: what keys are pressed at, and what a program reads from.
func openTerminal(t *testing.T) (keys, terminal *os.File) {
	t.Helper()
	open := func(name string) *os.File {
		f, err := os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	keys = open("/dev/ptmx")
	if err := unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetUint32(int(keys.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	return keys, open(fmt.Sprint("/dev/pts/", n))
}

// user answers questions: each text is typed when the next one is shown.
type user struct {
	t              *testing.T
	keys, terminal *os.File
	texts          []string
	told           strings.Builder
}

// types presses keys, and waits until the lines are there to be read.
func (u *user) types(text string) {
	if _, err := u.keys.WriteString(text); err != nil {
		u.t.Error(err)
	}
	eventually.True(u.t, "what was typed waits to be read", func() bool {
		n, err := unix.IoctlGetInt(int(u.terminal.Fd()), unix.TIOCINQ)
		return err == nil && n > strings.LastIndex(text, "\n")
	})
}

func (u *user) Write(b []byte) (int, error) {
	if strings.HasSuffix(string(b), "[y/N] ") && len(u.texts) > 0 {
		u.types(u.texts[0])
		u.texts = u.texts[1:]
	}
	return u.told.Write(b)
}

// TestWhatWasTypedBeforeAQuestionIsNoAnswer: neither what was pasted before the first one, nor one answer too many.
func TestWhatWasTypedBeforeAQuestionIsNoAnswer(t *testing.T) {
	keys, terminal := openTerminal(t)
	in := &stub{}
	var all []*orphan
	for n := range 4 {
		x := cloud.Owned{Kind: "load balancer", ID: fmt.Sprint(n), Mark: cloud.Mark{ClusterUID: "u", Service: "gone"}}
		all = append(all, &orphan{ID: x.ID, owned: x})
	}
	u := &user{t: t, keys: keys, terminal: terminal, texts: []string{"n\n", "y\ny\ny\n", "\n", "yes\n"}}
	u.types("y\ny\ny\ny\ny")
	r := &remover{inventory: in, told: u, timeout: time.Minute}
	r.ask(terminal)
	if stays := r.run(t.Context(), all); stays || !slices.Equal(in.removed, []string{"1", "3"}) {
		t.Errorf("stays %t, removed %q: %s", stays, in.removed, u.told.String())
	}
	if n := strings.Count(u.told.String(), "[y/N]"); n != len(all) {
		t.Errorf("%d questions: %s", n, u.told.String())
	}
}

// TestTerminal: only one can be asked. What is a device besides is none.
func TestTerminal(t *testing.T) {
	_, terminal := openTerminal(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	pipe, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = pipe.Close(), w.Close() }()
	for name, c := range map[string]struct {
		in   *os.File
		want bool
	}{"a terminal": {terminal, true}, os.DevNull: {null, false}, "a pipe": {pipe, false}} {
		if got := isTerminal(c.in); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// TestQuestionThatNobodyCanBeAskedIsANo: where the terminal has gone away, what comes from there is no answer.
func TestQuestionThatNobodyCanBeAskedIsANo(t *testing.T) {
	pipe, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pipe.Close() }()
	if _, err := w.WriteString("y\n"); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	var told strings.Builder
	in := &stub{}
	r := &remover{inventory: in, told: &told, timeout: time.Minute}
	r.ask(pipe)
	o := &orphan{ID: "1", owned: cloud.Owned{ID: "1", Mark: cloud.Mark{ClusterUID: "u", Service: "gone"}}}
	if r.run(t.Context(), []*orphan{o}); o.Outcome != kept || len(in.removed) > 0 || !strings.Contains(told.String(), "is not asked about") {
		t.Errorf("%+v, removed %q: %s", o, in.removed, told.String())
	}
}
