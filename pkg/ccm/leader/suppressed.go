package leader

import (
	"context"

	"k8s.io/klog/v2"
)

// SuppressElectionLost returns a logger for controller-runtime's manager. When the manager ends, it
// also ends its election, whose end it always reports as an error: "leader election lost".
// After a requested end, the end of ctx, that is no error.
func SuppressElectionLost(ctx context.Context, logger klog.Logger) klog.Logger {
	return logger.WithSink(suppressingSink{LogSink: logger.GetSink(), stopped: ctx})
}

// electionLost is what controller-runtime's manager says when its election ends.
const electionLost = "leader election lost"

type suppressingSink struct {
	klog.LogSink
	stopped context.Context // only to know whether it has ended
}

// Error implements klog.LogSink.
func (s suppressingSink) Error(err error, message string, keysAndValues ...any) {
	if err != nil && err.Error() == electionLost && s.stopped.Err() != nil {
		return
	}
	deeper(s.LogSink, 1).Error(err, message, keysAndValues...)
}

// WithValues implements klog.LogSink.
func (s suppressingSink) WithValues(keysAndValues ...any) klog.LogSink {
	return suppressingSink{LogSink: s.LogSink.WithValues(keysAndValues...), stopped: s.stopped}
}

// WithName implements klog.LogSink.
func (s suppressingSink) WithName(name string) klog.LogSink {
	return suppressingSink{LogSink: s.LogSink.WithName(name), stopped: s.stopped}
}

// WithCallDepth implements logr.CallDepthLogSink.
func (s suppressingSink) WithCallDepth(depth int) klog.LogSink {
	return suppressingSink{LogSink: deeper(s.LogSink, depth), stopped: s.stopped}
}

// deeper makes sink name the caller that many frames further up, where it can.
func deeper(sink klog.LogSink, depth int) klog.LogSink {
	if d, ok := sink.(interface{ WithCallDepth(int) klog.LogSink }); ok {
		return d.WithCallDepth(depth)
	}
	return sink
}
