"""The commands of a cluster on one machine: `koord up`, `apiserver`, `controllers`, `hollow`, `local`, `monitoring`."""
