package api

import (
	"cmp"
	"sync"
)

// maxKeys bounds how many access keys' accounts are remembered: a role's key changes every hour or so.
const maxKeys = 64

// accounts remembers of which account an access key is. A key is never another account's.
type accounts struct {
	mu    sync.Mutex
	byKey map[string]string
}

func (a *accounts) learn(key, account string) {
	if key == "" || account == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byKey == nil || len(a.byKey) >= maxKeys && a.byKey[key] == "" {
		a.byKey = map[string]string{}
	}
	a.byKey[key] = account
}

// of returns the account, "" where it is not known.
func (a *accounts) of(key string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.byKey[key]
}

// unknown stands for an account that is not known. No instance was ever seen there.
const unknown = "unknown"

// scopeOf names where answers are from: EC2 says "not found" of another account's or region's instance in the very words
// that it has for one that is gone.
func scopeOf(account, region string) string {
	return "account " + cmp.Or(account, unknown) + " in " + region
}
