// Package account is an account of AWS from outside: AWS itself, or an emulator of it that others wrote.
//
// It asks what the environment leads to, as every program with AWS' SDK does, makes a VPC of its own there, and deletes it
// afterwards. It knows nothing of the simulator, whose World is in the package above.
package account
