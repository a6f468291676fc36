package cluster

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestKernelIsToldWhatItLacks(t *testing.T) {
	fails := func(context.Context, *environment) error { return errors.New("not supported") }
	works := func(context.Context, *environment) error { return nil }
	e := &environment{}
	if err := checkKernel(t.Context(), e, []feature{{"bridges", "CONFIG_BRIDGE", works}}); err != nil {
		t.Error(err)
	}
	err := checkKernel(t.Context(), e, []feature{{"bridges", "CONFIG_BRIDGE", fails}, {"veth", "CONFIG_VETH", works}, {"NAT", "CONFIG_NFT_NAT", fails}})
	if !errors.Is(err, ErrKernel) || !strings.Contains(err.Error(), "bridges (CONFIG_BRIDGE): not supported") || !strings.Contains(err.Error(), "CONFIG_NFT_NAT") || strings.Contains(err.Error(), "CONFIG_VETH") {
		t.Error(err)
	}
}
