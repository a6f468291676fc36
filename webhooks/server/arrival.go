package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// maxInFlight is how many requests of one webhook are handled at a time: more than API
	// servers send while all goes well, and so few that a cloud that hangs piles up nothing.
	maxInFlight = 256
	// maxBodies is what the bodies of all requests together may take, as costOfBody estimates it, and
	// maxDecoded what is made of them. They are apart: who waits for the latter holds of the former,
	// and nobody who holds of the latter waits.
	maxBodies, maxDecoded = 32 << 20, 32 << 20
	// reservedSlots and reservedMemory are beside these, for clients who hold no more than that.
	reservedSlots, reservedMemory = 32, 4 << 20
	// headBytes is as much of a body as is looked at for the uid when the body as a whole is not
	// read or cannot be decoded. The API server's begin with it.
	headBytes = 1 << 10
	// headTime is how long that may take to arrive.
	headTime = time.Second
	// bodyTime is how long a body may take to arrive while others wait for what it holds.
	bodyTime = time.Second
	// keptBuffer is the largest buffer that is kept for the next request.
	keptBuffer = 64 << 10
)

// costOfBody is about as much memory as it takes to read a body, and to copy it while it is decoded
// and judged. It is more than 0 for an empty one: what holds nothing is not known to the shares.
func costOfBody(length int64) int64 { return max(1, min(4*length, maxBodies)) }

// costOfValues is what is built of a body's values.
func costOfValues(values int) int64 { return 256 * int64(max(1, values)) }

// arrival is a request on its way to the handler, and what it holds of the server.
type arrival struct {
	hook   *hook
	w      http.ResponseWriter
	r      *http.Request
	client string
	// giveWay ends the request's context.
	giveWay               context.CancelCauseFunc
	slot, memory, decoded *claim
	body                  *bytes.Buffer
	begun, whole          bool // of reading the body
}

// giveBack gives back what others may wait for.
func (a *arrival) giveBack() {
	if a.decoded != nil {
		a.decoded.release()
	}
	if a.memory != nil {
		a.memory.release()
	}
	if a.slot != nil {
		a.slot.release()
	}
}

// leave gives everything back.
func (a *arrival) leave() {
	a.giveBack()
	if a.body.Cap() <= keptBuffer { // decoding copies what it keeps
		a.body.Reset()
		a.hook.buffers.Put(a.body)
	}
}

// review takes what the request needs of the server, and only then reads and decodes the body.
// On an error the review holds what is known all the same.
func (a *arrival) review(ctx context.Context) (*review, error) {
	rv, err := &review{}, a.read(ctx)
	if err == nil {
		rv, err = a.decode(ctx)
	}
	if err != nil && rv.request.UID == "" {
		a.giveBack() // it takes its time
		rv.request.UID = a.uid()
	}
	return rv, err
}

func (a *arrival) read(ctx context.Context) (err error) {
	if err := checkHeader(a.r.Header); err != nil {
		return err
	}
	limit, length := a.hook.opts.MaxBodyBytes, a.r.ContentLength
	if length > limit {
		return &tooLargeError{limit}
	}
	if length < 0 { // it does not tell
		length = limit
	}
	late := a.hook.latecomers.has(a.client)
	if a.slot, err = a.hook.slots.take(ctx, &claim{client: a.client, n: 1, late: late, giveWay: a.giveWay}, false); err != nil {
		return err
	}
	if a.memory, err = a.hook.memory.take(ctx, &claim{client: a.client, n: costOfBody(length), late: late, giveWay: a.giveWay}, true); err != nil {
		return err
	}
	a.begun = true
	defer a.hook.opts.Clock.AfterFunc(bodyTime, a.expire).Stop()
	// A body that comes slowly holds what others may need: reading ends with ctx.
	control := http.NewResponseController(a.w)
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		_ = control.SetReadDeadline(time.Unix(1, 0))
	})
	defer func() {
		if stop() {
			return
		}
		if <-ended; err == nil || errors.Is(err, os.ErrDeadlineExceeded) { // control must not be used after the request
			err = context.Cause(ctx)
		}
	}()
	if a.r.ContentLength > 0 {
		a.body.Grow(int(length) + bytes.MinRead)
	}
	if _, err := a.body.ReadFrom(http.MaxBytesReader(nil, a.r.Body, limit)); err != nil {
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			return &tooLargeError{limit}
		}
		return fmt.Errorf("read the request's body: %w", err)
	}
	a.whole = true
	connectionOf(a.r).use()
	a.slot.arrive()
	a.memory.arrive()
	a.hook.latecomers.remove(a.client)
	return nil
}

// expire says that the body should be there by now.
func (a *arrival) expire() {
	a.hook.latecomers.add(a.client)
	a.slot.expire()
	a.memory.expire()
}

// decode decodes the body once it is known what that takes, and there is room for it.
func (a *arrival) decode(ctx context.Context) (*review, error) {
	values, err := measure(ctx, a.body.Bytes())
	if err != nil {
		return &review{}, err
	}
	a.memory.shrink(costOfBody(int64(a.body.Len())))
	if a.decoded, err = a.hook.decoded.take(ctx, &claim{client: a.client, n: costOfValues(values), arrived: true, giveWay: a.giveWay}, true); err != nil {
		return &review{}, err
	}
	rv, err := decodeReview(a.body.Bytes())
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return rv, err
}

// uid is the one at the beginning of the body, of which nothing may have been read yet; "" if
// there is none.
func (a *arrival) uid() types.UID {
	if !a.begun {
		_ = http.NewResponseController(a.w).SetReadDeadline(time.Now().Add(headTime)) // what cannot, waits as long as the server's ReadTimeout
		_, err := a.body.ReadFrom(http.MaxBytesReader(nil, a.r.Body, headBytes))      // what there is of it may be enough
		if errors.Is(err, os.ErrDeadlineExceeded) {
			a.hook.latecomers.add(a.client)
		}
	}
	return uidOf(a.body.Bytes()[:min(a.body.Len(), headBytes)])
}

// clientOf tells who shares with whom: clients by the name in their certificate where these are
// verified, else by address. Somebody may have all addresses that begin as an IPv6 address does.
func clientOf(r *http.Request, verified bool) string {
	if verified && r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		return r.TLS.PeerCertificates[0].Subject.CommonName
	}
	return addressOf(r.RemoteAddr)
}

// addressOf returns the address by which a client is known, of the remote end of its connection.
func addressOf(addrPort string) string {
	remote, err := netip.ParseAddrPort(addrPort)
	if err != nil {
		return addrPort
	}
	addr := remote.Addr().Unmap().WithZone("")
	if addr.Is6() {
		if prefix, err := addr.Prefix(64); err == nil {
			return prefix.String()
		}
	}
	return addr.String()
}
