"""By hand: our luxid and wconfd in a real Ganeti of three nodes (deploy/ganeti); needs root, apt and a network."""
