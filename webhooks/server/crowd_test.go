package server

import (
	"fmt"
	"testing"
)

// While there are few, a client may have all; else as many as the others, and a latecomer none.
func TestCrowdDividesItsRoom(t *testing.T) {
	c := newCrowd()
	enter := func(client string, late bool, tries int) (entered int) {
		for range tries {
			if c.enter(client, late) {
				entered++
			}
		}
		return entered
	}
	if n := enter("late", true, maxPresent); n != maxInFlight/2 {
		t.Errorf("a latecomer has %d", n)
	}
	if n := enter("greedy", false, 2*maxPresent); n != maxPresent-maxInFlight/2 {
		t.Errorf("one client has %d", n)
	}
	for i := range 9 {
		if n := enter(fmt.Sprint(i), false, maxPresent); n == 0 || n > maxPresent/2 {
			t.Errorf("client %d has %d when there are too many", i, n)
		}
	}
	if enter("late", true, 1)+enter("greedy", false, 1) > 0 {
		t.Error("who has more than others gets more")
	}
	for client, n := range c.clients {
		for range n {
			c.leave(client)
		}
	}
	if c.sum != 0 || len(c.clients) != 0 {
		t.Errorf("nobody is there, and %d of %v", c.sum, c.clients)
	}
}
