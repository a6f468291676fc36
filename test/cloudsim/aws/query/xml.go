package query

import (
	"bytes"
	"encoding/xml"
	"strconv"
	"strings"
	"time"
)

// Writer writes an answer. Pages of a thousand instances are written in tests that measure others, so it does without
// reflection.
type Writer struct {
	b    bytes.Buffer
	item string // of a list
	open []string
}

// NewWriter returns a writer whose lists have items of this name.
func NewWriter(item string) *Writer { return &Writer{item: item} }

// Bytes is what was written.
func (w *Writer) Bytes() []byte { return w.b.Bytes() }

// Open begins an element, which Close ends. The name may have attributes behind it.
func (w *Writer) Open(name string) {
	w.b.WriteByte('<')
	w.b.WriteString(name)
	w.b.WriteByte('>')
	bare, _, _ := strings.Cut(name, " ")
	w.open = append(w.open, bare)
}

// Close ends the element that was begun last.
func (w *Writer) Close() {
	last := len(w.open) - 1
	w.b.WriteString("</")
	w.b.WriteString(w.open[last])
	w.b.WriteByte('>')
	w.open = w.open[:last]
}

// Raw writes a document that is one already.
func (w *Writer) Raw(text string) { w.b.WriteString(text) }

// Text writes an element with a text, none when that is empty.
func (w *Writer) Text(name, value string) {
	if value == "" {
		return
	}
	w.Open(name)
	w.Escaped(value)
	w.Close()
}

// Escaped writes a text.
func (w *Writer) Escaped(text string) {
	if strings.ContainsAny(text, "<>&'\"\r\n\t") {
		_ = xml.EscapeText(&w.b, []byte(text)) // a buffer takes all
	} else {
		w.b.WriteString(text)
	}
}

// Int writes an element with a number.
func (w *Writer) Int(name string, n int) { w.Text(name, strconv.Itoa(n)) }

// Bool writes an element with a truth value.
func (w *Writer) Bool(name string, b bool) { w.Text(name, strconv.FormatBool(b)) }

// Time writes an element with a time, none for the zero time.
func (w *Writer) Time(name string, t time.Time) {
	if !t.IsZero() {
		w.Text(name, t.UTC().Format("2006-01-02T15:04:05.000Z"))
	}
}

// List writes a list; write writes what is in an item.
func List[T any](w *Writer, name string, items []T, write func(T)) {
	w.Open(name)
	for _, item := range items {
		w.Open(w.item)
		write(item)
		w.Close()
	}
	w.Close()
}

// Strings writes a list of texts.
func Strings(w *Writer, name string, items []string) {
	w.Open(name)
	for _, item := range items {
		w.Text(w.item, item)
	}
	w.Close()
}
