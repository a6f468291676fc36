// Package rig is a stage for real controller managers: a real control plane that is watched, and the process on it.
package rig
