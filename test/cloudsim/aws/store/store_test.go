package store

import (
	"slices"
	"testing"
	"time"
)

type thing struct {
	Record
	id string
}

func (t *thing) Key() string { return t.id }

func TestTableKeepsTheOrder(t *testing.T) {
	var clock Clock
	var table Table[*thing]
	for _, id := range []string{"c", "a", "b"} {
		table.Put(&thing{clock.Record(), id})
	}
	next := *table.Get("a")
	table.Put(&next)
	table.Remove("c")
	table.Remove("none")
	var ids []string
	for _, v := range table.All() {
		ids = append(ids, v.id)
	}
	if !slices.Equal(ids, []string{"a", "b"}) || table.Get("a") != &next || table.Get("c") != nil {
		t.Errorf("got %v", ids)
	}
}

func TestClockDoesThingsInOrder(t *testing.T) {
	var clock Clock
	var done []int
	for _, n := range []int{3, 1, 2} {
		clock.After(time.Duration(n)*time.Millisecond, func() { done = append(done, n) })
	}
	clock.After(0, func() { done = append(done, 0) })
	clock.After(2*time.Millisecond, func() { // follows on time, though nobody has looked
		clock.After(2*time.Millisecond, func() { done = append(done, 4) })
	})
	time.Sleep(5 * time.Millisecond)
	if clock.Settle(); !slices.Equal(done, []int{0, 1, 2, 3, 4}) {
		t.Errorf("got %v", done)
	}
}
