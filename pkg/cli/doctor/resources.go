package doctor

import (
	"context"

	"github.com/isthmus-cloud/isthmus/credentialprovider/kubelet"
	"github.com/isthmus-cloud/isthmus/pkg/cli/output"
)

// checkResources has the cloud's provider look for what only it knows.
func checkResources(ctx context.Context, p *patient) (found []output.Finding, err error) {
	if p.cloud.Diagnose == nil {
		return nil, nil
	}
	d, err := p.cloud.Diagnose(ctx)
	p.unseen = d.Unseen
	for _, x := range d.Problems {
		f := output.Finding{Severity: output.Error, Object: x.Object, Message: x.What, Next: x.Next}
		if x.Warning {
			f.Severity = output.Warning
		}
		found = append(found, f)
	}
	return found, err
}

// checkKubelet reads a kubelet's configuration of credential providers, as the kubelet would. Whether its programs are there only
// the machine itself can tell: isthmus-credential-provider check.
func checkKubelet(_ context.Context, p *patient) (found []output.Finding, err error) {
	if p.kubeletConfig == "" {
		p.absent = true
		return nil, nil
	}
	entries, problems := kubelet.Load(p.kubeletConfig)
	for _, x := range append(problems, kubelet.Validate(entries, "")...) {
		f := output.Finding{Severity: output.Warning, Object: x.File, Message: x.Cause, Next: x.Next}
		if x.Level == kubelet.Problem {
			f.Severity = output.Error
		}
		if x.Field != "" {
			f.Message = x.Field + ": " + f.Message
		}
		if x.Entry != "" {
			f.Message = x.Entry + ": " + f.Message
		}
		found = append(found, f)
	}
	return found, nil
}
