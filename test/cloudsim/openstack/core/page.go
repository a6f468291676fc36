package core

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"slices"

	"github.com/google/uuid"
)

// NewID returns a random UUID with dashes, as all services but Keystone use.
func NewID() string { return uuid.NewString() }

// Page cuts one page out of items: those after the one whose id is marker, at most limit
// (negative for all). more says that items follow; found is false when there is no such marker.
func Page[T any](items []T, id func(T) string, marker string, limit int) (out []T, more, found bool) {
	if marker != "" {
		i := slices.IndexFunc(items, func(x T) bool { return id(x) == marker })
		if i < 0 {
			return nil, false, false
		}
		items = items[i+1:]
	}
	if limit >= 0 && len(items) > limit {
		return items[:limit], true, true
	}
	return items, false, true
}

// NewHex returns a random id as Keystone makes them.
func NewHex() string { return hex.EncodeToString(randomBytes(16)) }

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails, by its contract
	return b
}

// RandomText returns a secret of n random bytes.
func RandomText(n int) string { return base64.RawURLEncoding.EncodeToString(randomBytes(n)) }
