package chaos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
)

// network is the cluster's network as kube-apiserver sees it: an egress proxy, as
// konnectivity is one, through which it reaches the cluster IPs of Services.
type network struct {
	socket string
	config string // the file with the EgressSelectorConfiguration
	listen net.Listener
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu       sync.Mutex
	services map[string]*balancer // by cluster IP and port
}

// startNetwork makes a network with its files in dir.
func startNetwork(dir string) (*network, error) {
	n := &network{socket: filepath.Join(dir, "egress.sock"), config: filepath.Join(dir, "egress.yaml"), services: map[string]*balancer{}}
	content := fmt.Sprintf(`apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection: {proxyProtocol: HTTPConnect, transport: {uds: {udsName: %q}}}
`, n.socket)
	if err := os.WriteFile(n.config, []byte(content), 0o600); err != nil {
		return nil, err
	}
	var ctx context.Context
	ctx, n.cancel = context.WithCancel(context.Background())
	var err error
	if n.listen, err = (&net.ListenConfig{}).Listen(ctx, "unix", n.socket); err != nil {
		return nil, err
	}
	n.wg.Go(func() { n.accept(ctx) })
	return n, nil
}

func (n *network) stop() error {
	n.cancel()
	err := n.listen.Close()
	n.wg.Wait()
	return err
}

// serve makes b the Service at address; the returned function ends that.
func (n *network) serve(address string, b *balancer) (stop func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.services[address] = b
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.services, address)
	}
}

func (n *network) accept(ctx context.Context) {
	for {
		conn, err := n.listen.Accept()
		if err != nil {
			return
		}
		n.wg.Go(func() { n.connect(ctx, conn.(*net.UnixConn)) })
	}
}

// connect serves one CONNECT request.
func (n *network) connect(ctx context.Context, conn *net.UnixConn) {
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	req, err := http.ReadRequest(bufio.NewReader(conn)) // the client sends nothing more before the answer
	if err != nil || req.Method != http.MethodConnect {
		return
	}
	n.mu.Lock()
	b := n.services[req.RequestURI]
	n.mu.Unlock()
	err = errors.New("no Service has this address")
	if b != nil {
		err = b.forward(ctx, conn, func() error {
			_, err := fmt.Fprint(conn, "HTTP/1.1 200 OK\r\n\r\n")
			return err
		})
	}
	if err != nil {
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 503 %s\r\nContent-Length: 0\r\n\r\n", err) // a client that left needs no answer
	}
}
