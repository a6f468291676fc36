package inventory

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// Memory remembers values by a key for some time each. What is too old goes with the next one that
// comes, so that nothing is left of what nobody asks for any more. The zero value is ready; it is safe for
// concurrent use, and who uses it has the clock.
type Memory[K comparable, V any] struct {
	mu      sync.Mutex
	entries map[K]remembered[V]
	reading singleflight.Group
}

type remembered[V any] struct {
	value V
	until time.Time
}

// Put remembers a value until then.
func (m *Memory[K, V]) Put(key K, value V, now, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.entries == nil {
		m.entries = map[K]remembered[V]{}
	}
	maps.DeleteFunc(m.entries, func(_ K, old remembered[V]) bool { return now.After(old.until) })
	m.entries[key] = remembered[V]{value, until}
}

// Get returns what is remembered; ok is false for nothing.
func (m *Memory[K, V]) Get(key K, now time.Time) (value V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.get(key, now)
}

func (m *Memory[K, V]) get(key K, now time.Time) (value V, ok bool) {
	e, ok := m.entries[key]
	if now.After(e.until) {
		delete(m.entries, key)
		return value, false
	}
	return e.value, ok
}

// Take is Get that forgets.
func (m *Memory[K, V]) Take(key K, now time.Time) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer delete(m.entries, key)
	return m.get(key, now)
}

// Read is Get that reads what is not there, once for all who ask at the same time, and believes it for ttl
// from when that began. No failure is remembered.
func (m *Memory[K, V]) Read(key K, now func() time.Time, ttl time.Duration, read func() (V, error)) (V, error) {
	v, err, _ := m.reading.Do(fmt.Sprintf("%#v", key), func() (any, error) {
		began := now()
		if v, ok := m.Get(key, began); ok {
			return v, nil
		}
		v, err := read()
		if err != nil {
			return nil, err
		}
		m.Put(key, v, began, began.Add(ttl))
		return v, nil
	})
	out, _ := v.(V)
	return out, err
}

// Forget forgets what is remembered.
func (m *Memory[K, V]) Forget(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.entries, key)
}
