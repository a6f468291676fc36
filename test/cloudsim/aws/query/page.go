package query

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
)

// Ordered is an object with a place in the order of its kind that it keeps for life.
type Ordered interface{ Sequence() int64 }

// Page cuts what is sorted by Sequence: at most size items (0 is all) behind the place that a token names. The token is of this
// list alone, and holds while objects come and go. It returns the next page's token, "" for none.
func Page[T Ordered](list string, items []T, size int, token string) ([]T, string, error) {
	if token != "" {
		text, err := base64.RawURLEncoding.DecodeString(token)
		at, mine := strings.CutPrefix(string(text), list+"@")
		n, numberErr := strconv.ParseInt(at, 10, 64)
		if err != nil || numberErr != nil || !mine {
			return nil, "", Errorf("InvalidNextToken",
				"The specified NextToken is not valid.") // unverified which code each operation has
		}
		i, _ := slices.BinarySearchFunc(items, n+1, func(v T, n int64) int { return int(v.Sequence() - n) })
		items = items[i:]
	}
	if size == 0 || len(items) <= size {
		return items, "", nil
	}
	items = items[:size]
	next := list + "@" + strconv.FormatInt(items[size-1].Sequence(), 10)
	return items, base64.RawURLEncoding.EncodeToString([]byte(next)), nil
}
