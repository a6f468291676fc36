// Package options are the settings of the cloud controller manager: their flags, which are the framework's where
// that has them, what is checked of them without the network, and which controllers they turn on. It starts nothing.
package options
