package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// taker takes shares and notes which of its claims were told to give way.
type taker struct {
	*shares
	told map[string]bool
}

func newTaker(total int64) *taker { return &taker{newShares(total, 0), map[string]bool{}} }

func (k *taker) take(t *testing.T, name, client string, n int64) (*claim, error) {
	t.Helper()
	return k.shares.take(t.Context(), &claim{client: client, n: n, arrived: true, giveWay: func(error) { k.told[name] = true }}, false)
}

func (k *taker) mustTake(t *testing.T, name, client string, n int64) *claim {
	t.Helper()
	c, err := k.take(t, name, client, n)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return c
}

func TestSharesOneClientMayHaveAll(t *testing.T) {
	k := newTaker(3)
	var claims []*claim
	for i := range 3 {
		claims = append(claims, k.mustTake(t, fmt.Sprint(i), "a", 1))
	}
	if _, err := k.take(t, "fourth", "a", 1); !errors.Is(err, errNoRoom) {
		t.Errorf("a fourth of three: %v", err)
	}
	claims[1].release()
	k.mustTake(t, "again", "a", 1)
	if len(k.told) > 0 {
		t.Errorf("%v were told to give way to their own client", k.told)
	}
}

// Who comes late gets as much as the others, who give up their newest claims, and no more.
func TestSharesWhoHoldsLeastComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTaker(6)
		claims := map[string]*claim{}
		for i := range 6 {
			name := fmt.Sprint("a", i)
			claims[name] = k.mustTake(t, name, "a", 1)
		}
		for i, want := range []string{"a5", "a4", "a3", ""} {
			ended := make(chan error, 1)
			go func() {
				_, err := k.take(t, fmt.Sprint("b", i), "b", 1)
				ended <- err
			}()
			synctest.Wait()
			if want == "" {
				if err := <-ended; !errors.Is(err, errNoRoom) {
					t.Errorf("b gets more than a: %v", err)
				}
				break
			}
			if !k.told[want] || len(k.told) != i+1 {
				t.Fatalf("told to give way are %v, want %s as the next", k.told, want)
			}
			select {
			case err := <-ended:
				t.Fatalf("granted, or refused (%v), before there is room", err)
			default:
			}
			claims[want].release()
			if err := <-ended; err != nil {
				t.Errorf("b%d: %v", i, err)
			}
		}
	})
}

// Of those who wait, the one is next with whom its client holds least, however many others wait
// and since when; and who gives up leaves nothing behind.
func TestSharesWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShares(10, 0)
		held, err := s.take(t.Context(), &claim{client: "a", n: 10, arrived: true, giveWay: func(error) {}}, true)
		if err != nil {
			t.Fatal(err)
		}
		var order []string
		ctx, cancel := context.WithCancel(t.Context())
		wait := func(ctx context.Context, client string, n int64) {
			go func() {
				c, err := s.take(ctx, &claim{client: client, n: n, arrived: true, giveWay: func(error) {}}, true)
				if err != nil {
					order = append(order, client+" gave up")
					return
				}
				order = append(order, client)
				c.release()
			}()
			synctest.Wait()
		}
		wait(t.Context(), "big", 9)
		wait(t.Context(), "big", 9)
		wait(ctx, "leaving", 1)
		wait(t.Context(), "small", 3)
		cancel()
		synctest.Wait()
		held.shrink(7) // 3 are free
		synctest.Wait()
		held.release()
		synctest.Wait()
		if got, want := fmt.Sprint(order), "[leaving gave up small big big]"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if s.free != 10 || s.leaving != 0 || len(s.holders) > 0 || s.waiting > 0 {
			t.Errorf("left over: %+v", s)
		}
	})
}

// Nobody gives way to more than what makes both hold as much, however many claims wait.
func TestSharesManyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const total = 10
		k, ctx := newTaker(total), t.Context()
		var claims []*claim
		for i := range total {
			claims = append(claims, k.mustTake(t, fmt.Sprint(i), "a", 1))
		}
		for range total {
			go func() {
				if c, err := k.shares.take(ctx, &claim{client: "crowd", n: 1, arrived: true, giveWay: func(error) {}}, true); err == nil {
					c.release()
				}
			}()
			synctest.Wait()
		}
		if len(k.told) != total/2 {
			t.Errorf("%d of %d claims were told to give way", len(k.told), total)
		}
		for _, c := range claims {
			c.release()
		}
		synctest.Wait()
	})
}

// A claim is granted or given up at the same moment: either way nothing is lost.
func TestSharesGrantedWhileGivingUp(t *testing.T) {
	s := newShares(1, 0)
	for range 1000 {
		held, err := s.take(t.Context(), &claim{client: "a", n: 1, arrived: true, giveWay: func(error) {}}, false)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if c, err := s.take(ctx, &claim{client: "b", n: 1, arrived: true, giveWay: func(error) {}}, true); err == nil {
				c.release()
			}
		}()
		go held.release()
		cancel()
		<-ended
		eventuallyFree(t, s, 1)
	}
}

func eventuallyFree(t *testing.T, s *shares, n int64) {
	t.Helper()
	for t.Context().Err() == nil {
		s.mu.Lock()
		free := s.free
		s.mu.Unlock()
		if free == n {
			return
		}
	}
}

func TestClientOf(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.7:443":          "192.0.2.7",
		"[::ffff:192.0.2.7]:443": "192.0.2.7",
		"[2001:db8::1:2]:443":    "2001:db8::/64",
		"[2001:db8:0:1::1]:443":  "2001:db8:0:1::/64",
		"[fe80::1%eth0]:443":     "fe80::/64",
		"pipe":                   "pipe",
	} {
		r := &http.Request{RemoteAddr: remote}
		if got := clientOf(r, false); got != want {
			t.Errorf("%s shares as %s, want %s", remote, got, want)
		}
	}
}

// A claim of nothing would never be forgotten, and what refers to it would stay for ever.
func TestSharesForgetWhatWasReleased(t *testing.T) {
	for _, n := range []int64{costOfBody(0), costOfBody(1), costOfValues(0)} {
		s := newShares(maxBodies, 0)
		c, err := s.take(t.Context(), &claim{client: "a", n: n, arrived: true, giveWay: func(error) {}}, true)
		if err != nil {
			t.Fatal(err)
		}
		c.release()
		c.release()
		if len(s.holders) != 0 || s.free != maxBodies {
			t.Errorf("%d of %d are free, holders %v", s.free, maxBodies, s.holders)
		}
	}
}

// Who comes later and before another takes the room that was made for that one: more is made.
func TestSharesMakeRoomAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTaker(6)
		claims := make([]*claim, 5)
		for i := range claims {
			claims[i] = k.mustTake(t, fmt.Sprint("a", i), "a", 1)
		}
		k.mustTake(t, "api0", "api", 1)
		granted := make(chan error, 2)
		for _, client := range []string{"api", "b"} { // b, who has nothing, comes before api
			go func() {
				_, err := k.take(t, client, client, 1)
				granted <- err
			}()
			synctest.Wait()
		}
		if len(k.told) != 2 {
			t.Errorf("told to give way are %v, want two of a's", k.told)
		}
		for _, c := range claims[3:] {
			c.release()
		}
		if err := errors.Join(<-granted, <-granted); err != nil {
			t.Error(err)
		}
	})
}

// 200 strangers with slow bodies as large as the API server's leave memory for it.
func TestSharesOfBodies(t *testing.T) {
	s := newShares(maxBodies, 0)
	for i := range 200 {
		if _, err := s.take(t.Context(), &claim{client: fmt.Sprint("stranger", i), n: costOfBody(10_000), arrived: true, giveWay: func(error) {}}, false); err != nil {
			t.Fatalf("stranger %d: %v", i, err)
		}
	}
	if _, err := s.take(t.Context(), &claim{client: "api", n: costOfBody(10_000), arrived: true, giveWay: func(error) {}}, false); err != nil {
		t.Error(err)
	}
}

// What is late gives way as soon as others wait, the earliest first, and comes after them; what has
// arrived does not.
func TestSharesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, told, claims, order := newShares(3, 0), map[string]error{}, map[string]*claim{}, []string{}
		take := func(client string, late bool) {
			t.Helper()
			c, err := s.take(t.Context(), &claim{client: client, n: 1, late: late, giveWay: func(err error) { told[client] = err }}, false)
			if err != nil {
				t.Errorf("%s: %v", client, err)
			}
			claims[client], order = c, append(order, client)
		}
		for _, client := range []string{"a", "b", "c"} {
			take(client, false)
		}
		for _, waiting := range []string{"late", "d", "e"} { // all wait: those who hold have yet to send
			go take(waiting, waiting == "late")
			synctest.Wait()
		}
		if len(told) > 0 {
			t.Errorf("%v gave way before they were late", told)
		}
		claims["c"].arrive()
		for _, client := range []string{"a", "b", "c"} {
			claims[client].expire()
		}
		if len(told) != 2 || !errors.Is(told["a"], errLate) || !errors.Is(told["b"], errLate) {
			t.Errorf("%v gave way, want the two that had not arrived", told)
		}
		for _, client := range []string{"a", "b", "c"} {
			claims[client].release()
			synctest.Wait()
		}
		go take("f", false)
		synctest.Wait()
		if len(told) != 3 || !errors.Is(told["late"], errLate) {
			t.Errorf("%v gave way, want also who was late from the beginning", told)
		}
		claims["late"].release()
		synctest.Wait()
		if got, want := fmt.Sprint(order), "[a b c d e late f]"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// Who holds little finds room without anybody else's leaving, and only who holds little.
func TestSharesReserve(t *testing.T) {
	s := newShares(8, 2)
	take := func(client string, n int64) error {
		_, err := s.take(t.Context(), &claim{client: client, n: n, arrived: true, giveWay: func(err error) { t.Errorf("%s asks, others are told: %v", client, err) }}, false)
		return err
	}
	for i, want := range []struct {
		client string
		n      int64
		err    error
	}{{"a", 7, nil}, {"a", 2, errNoRoom}, {"a", 1, nil}, {"b", 1, nil}, {"a", 1, errNoRoom}, {"b", 1, nil}} {
		if err := take(want.client, want.n); !errors.Is(err, want.err) {
			t.Errorf("%d: %s gets %d more: %v, want %v", i, want.client, want.n, err, want.err)
		}
	}
}

// So many wait, and no more: the last of them goes, which is not who holds least.
func TestSharesBoundedQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := newShares(1, 0), t.Context()
		held, err := s.take(ctx, &claim{client: "a", n: 1, arrived: true}, true)
		if err != nil {
			t.Fatal(err)
		}
		refused, granted := 0, 0
		for i := range maxWaiting + 1 {
			client := "crowd"
			if i == maxWaiting {
				client = "api"
			}
			go func() {
				c, err := s.take(ctx, &claim{client: client, n: 1, arrived: true}, true)
				if errors.Is(err, errNoRoom) && client == "crowd" {
					refused++
					return
				}
				granted++
				c.release()
			}()
			synctest.Wait()
		}
		if refused != 1 {
			t.Errorf("%d were refused, want the last of the crowd", refused)
		}
		held.release()
		synctest.Wait()
		if granted != maxWaiting || s.waiting != 0 || s.free != 1 {
			t.Errorf("%d were granted, %d wait, %d is free", granted, s.waiting, s.free)
		}
	})
}

// So many are known as late, and no more.
func TestLatecomers(t *testing.T) {
	l := newLatecomers()
	for i := range 2 * maxLatecomers {
		l.add(fmt.Sprint(i))
	}
	if last := fmt.Sprint(2*maxLatecomers - 1); len(l.clients) != maxLatecomers || !l.has(last) {
		t.Errorf("%d are known, the last among them: %v", len(l.clients), l.has(last))
	}
	l.remove("x")
}

// Without a uid the API server reads no answer, so it gets the error and does as the policy says.
func TestNothingPassesWithoutUID(t *testing.T) {
	ignore := func(string) admissionregistrationv1.FailurePolicyType { return admissionregistrationv1.Ignore }
	h := &hook{common: &common{opts: Options{FailurePolicy: ignore}}, name: "test"}
	for err, code := range map[error]int32{errNoRoom: 429, errGiveWay: 429, context.DeadlineExceeded: 504, errTooComplex: 413} {
		if resp, _ := h.unjudged(err, false); resp.Allowed || resp.Result.Code != code || resp.Result.Message == "" {
			t.Errorf("%v, no uid: %+v, want code %d", err, resp, code)
		}
		if resp, _ := h.unjudged(err, true); !resp.Allowed || len(resp.Warnings) != 1 {
			t.Errorf("%v: %+v, want a warning", err, resp)
		}
	}
}
