// Package store has what the states of simulated services of AWS are built of: tables of objects in the order in which they came
// (Table), and a clock for what happens later (Clock). Neither locks: that is for the state to do.
package store

import (
	"slices"
	"time"
)

// Record is embedded by objects: it says when they came.
type Record struct {
	seq  int64
	born time.Time
}

// Sequence is the object's place in the order of its kind, which it keeps.
func (r Record) Sequence() int64 { return r.seq }

// Created is when the object came.
func (r Record) Created() time.Time { return r.born }

// Clock numbers objects, and does things later. Nothing runs in the background: who locks the state calls Settle.
type Clock struct {
	seq int64
	due []event   // sorted by time
	at  time.Time // when what Settle does just now was due, zero outside of it
}

type event struct {
	at time.Time
	do func()
}

// Next is a number that no other call returns.
func (c *Clock) Next() int64 {
	c.seq++
	return c.seq
}

// Record is that of a new object.
func (c *Clock) Record() Record { return Record{c.Next(), time.Now()} }

// After lets do happen d from now, at the first Settle from then on. It happens at once if d is not positive. For what itself
// happens later, now is when it was due: however late somebody looks, what follows is on time.
func (c *Clock) After(d time.Duration, do func()) {
	if d <= 0 {
		do()
		return
	}
	now := c.at
	if now.IsZero() {
		now = time.Now()
	}
	e := event{now.Add(d), do}
	i, _ := slices.BinarySearchFunc(c.due, e, func(a, b event) int {
		if a.at.After(b.at) {
			return 1
		}
		return -1 // what is due at the same time happens in the order in which it was asked for
	})
	c.due = slices.Insert(c.due, i, e)
}

// Settle does what has become due.
func (c *Clock) Settle() {
	now := time.Now()
	for len(c.due) > 0 && !c.due[0].at.After(now) {
		next := c.due[0]
		c.due = slices.Delete(c.due, 0, 1)
		c.at = next.at
		next.do()
	}
	c.at = time.Time{}
}

// Object is what a table holds. It is not changed, but replaced.
type Object interface {
	comparable
	Sequence() int64
	Key() string
}

// Table has the objects of a kind. The zero value is empty.
type Table[T Object] struct {
	byKey  map[string]T
	sorted []T // by sequence
}

func (t *Table[T]) find(seq int64) (int, bool) {
	return slices.BinarySearchFunc(t.sorted, seq, func(v T, seq int64) int { return int(v.Sequence() - seq) })
}

// Put adds an object, or replaces the one with its sequence. The key of an object does not change.
func (t *Table[T]) Put(v T) {
	if t.byKey == nil {
		t.byKey = map[string]T{}
	}
	t.byKey[v.Key()] = v
	if i, found := t.find(v.Sequence()); found {
		t.sorted[i] = v
	} else {
		t.sorted = slices.Insert(t.sorted, i, v)
	}
}

// Remove removes the object of a key, if there is one.
func (t *Table[T]) Remove(key string) {
	v, found := t.byKey[key]
	if !found {
		return
	}
	delete(t.byKey, key)
	if i, found := t.find(v.Sequence()); found {
		t.sorted = slices.Delete(t.sorted, i, i+1)
	}
}

// Get is the object of a key, nil if there is none.
func (t *Table[T]) Get(key string) T { return t.byKey[key] }

// All are all objects.
func (t *Table[T]) All() []T { return slices.Clone(t.sorted) }

// Where are the objects of which something is true.
func (t *Table[T]) Where(is func(T) bool) []T {
	var out []T
	for _, v := range t.sorted {
		if is(v) {
			out = append(out, v)
		}
	}
	return out
}

// Any reports whether something is true of any object.
func (t *Table[T]) Any(is func(T) bool) bool { return slices.ContainsFunc(t.sorted, is) }
