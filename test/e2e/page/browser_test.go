//go:build e2e

package page

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// browser is a headless Chromium with one tab, led by the DevTools protocol over a pipe: messages are JSON, and end with a zero byte.
type browser struct {
	t       *testing.T
	to      *os.File
	session string
	replies chan message
	last    int

	mu sync.Mutex
	// asked are the addresses that it has asked for, and said is what it has complained about in its console.
	asked, said []string
	status      int
}

// message is a command, its answer or an event.
type message struct {
	ID        int             `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// open starts one that takes the certificate with this public key, and no other, for a good one.
func open(t *testing.T, publicKey string) *browser {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--log-level=3", "--hide-scrollbars", "--remote-debugging-pipe", "--user-data-dir="+t.TempDir(),
		"--ignore-certificate-errors-spki-list="+publicKey, "about:blank")
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	theirIn, ourOut, err := os.Pipe()
	ourIn, theirOut, err2 := os.Pipe()
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	var complaints strings.Builder
	cmd.Stderr = &complaints
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = theirIn.Close(), theirOut.Close()
	b := &browser{t: t, to: ourOut, replies: make(chan message, 1)}
	go b.listen(ourIn)
	t.Cleanup(func() {
		_, _ = fmt.Fprint(ourOut, `{"id":999999,"method":"Browser.close"}`+"\x00")
		ended := time.AfterFunc(10*time.Second, cancel)
		_ = cmd.Wait() // how it ends says nothing
		ended.Stop()
		cancel()
		_, _ = ourIn.Close(), ourOut.Close()
		if t.Failed() {
			t.Log("Chromium says: ", complaints.String())
		}
	})
	var target struct{ TargetID string }
	b.do(&target, "Target.createTarget", map[string]any{"url": "about:blank"})
	var attached struct{ SessionID string }
	b.do(&attached, "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true})
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Network", "Log", "Runtime"} {
		b.do(nil, domain+".enable", nil)
	}
	return b
}

// listen takes what the browser says, until it has ended.
func (b *browser) listen(from *os.File) {
	defer close(b.replies)
	r := bufio.NewReader(from)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
			b.note(&b.said, "a message that is not JSON: "+string(text))
			continue
		}
		if m.ID != 0 {
			b.replies <- m
			continue
		}
		b.event(m)
	}
}

func (b *browser) event(m message) {
	var p struct {
		Request  struct{ URL string }
		Response struct{ Status int }
		Type     string
	}
	switch m.Method {
	case "Network.requestWillBeSent":
		if err := json.Unmarshal(m.Params, &p); err == nil {
			b.note(&b.asked, p.Request.URL)
		}
	case "Network.responseReceived":
		if err := json.Unmarshal(m.Params, &p); err == nil && p.Type == "Document" {
			b.mu.Lock()
			b.status = p.Response.Status
			b.mu.Unlock()
		}
	case "Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Page.javascriptDialogOpening":
		b.note(&b.said, m.Method+" "+string(m.Params))
	}
}

func (b *browser) note(in *[]string, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*in = append(*in, text)
}

// do carries out a command, and decodes its result.
func (b *browser) do(result any, method string, params map[string]any) {
	b.t.Helper()
	if params == nil {
		params = map[string]any{}
	}
	b.last++
	text, err := json.Marshal(map[string]any{"id": b.last, "method": method, "params": params, "sessionId": b.session})
	if err == nil && b.session == "" {
		text, err = json.Marshal(map[string]any{"id": b.last, "method": method, "params": params})
	}
	if err == nil {
		_, err = b.to.Write(append(text, 0))
	}
	if err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	select {
	case m, ok := <-b.replies:
		switch {
		case !ok:
			b.t.Fatalf("%s: Chromium has ended", method)
		case m.ID != b.last || m.Error != nil:
			b.t.Fatalf("%s: answer %d, %+v", method, m.ID, m.Error)
		case result != nil:
			if err := json.Unmarshal(m.Result, result); err != nil {
				b.t.Fatalf("%s: %v", method, err)
			}
		}
	case <-time.After(time.Minute):
		b.t.Fatalf("%s: no answer", method)
	}
}

// eval is what an expression of JavaScript is in the page.
func (b *browser) eval(result any, expression string) {
	b.t.Helper()
	var out struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.do(&out, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true})
	if out.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, out.ExceptionDetails)
	}
	if err := json.Unmarshal(out.Result.Value, result); err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
}

// visit shows an address to somebody with a token, "" for none, and returns the status of the answer.
func (b *browser) visit(url, token string) int {
	b.t.Helper()
	headers := map[string]any{}
	if token != "" {
		headers["Authorization"] = "Bearer " + token
	}
	b.do(nil, "Network.setExtraHTTPHeaders", map[string]any{"headers": headers})
	b.mu.Lock()
	b.asked, b.said, b.status = nil, nil, 0
	b.mu.Unlock()
	var navigated struct{ ErrorText string }
	b.do(&navigated, "Page.navigate", map[string]any{"url": url})
	if navigated.ErrorText != "" && !strings.Contains(navigated.ErrorText, "ERR_HTTP_RESPONSE_CODE_FAILURE") {
		b.t.Fatalf("%s: %s", url, navigated.ErrorText)
	}
	for state := ""; state != "complete"; {
		b.eval(&state, "document.readyState")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status
}
