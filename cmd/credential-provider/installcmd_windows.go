package main

import "errors"

// parseInstall says what to do in place of the command install, which knows Linux nodes alone.
func parseInstall(_ []string, s streams) (work, int) {
	complain(s.err, errors.New(`install is for Linux nodes; here, copy this program as `+name+`.exe into the kubelet's --image-credential-provider-bin-dir, and what `+name+` config writes to its --image-credential-provider-config, both writable for administrators alone, and restart the kubelet`))
	return nil, exitFailed
}
